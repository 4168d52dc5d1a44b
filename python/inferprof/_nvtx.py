"""A minimal NVTX client.

NVTX's headers load the tool named by NVTX_INJECTION64_PATH and hand it tables of function pointers, which the tool
overwrites with its own functions. This module does the same through ctypes, so that markers need no other package.
Slot and table numbers are those of NVTX's headers (NvtxCallbackIdCore).
"""

import ctypes
import os
import threading

STAGE_PREFIX = "inferprof:stage "  # meaning given by the collector (src/collect/nvtx_own.h)
CONSUMED_PREFIX, MADE_PREFIX = "inferprof:consumed ", "inferprof:made "

_SLOTS = 16
_MARK, _PUSH, _POP = 2, 9, 11  # nvtxMarkA, nvtxRangePushA, nvtxRangePop
_MODULE_CORE = 1
_TABLE_CALLBACKS = 1

_slot_type = ctypes.POINTER(ctypes.c_void_p)
_get_module_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(_slot_type)),
                                    ctypes.POINTER(ctypes.c_uint))
_get_table_type = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)


class _Callbacks(ctypes.Structure):  # NvtxExportTableCallbacks
    _fields_ = [("bytes", ctypes.c_size_t), ("get_module", _get_module_type)]


class Client:
    """The functions of the loaded tool. All memory that the tool may call or write to is kept as long as this object."""

    def __init__(self, path):
        self._functions = (ctypes.c_void_p * _SLOTS)()
        self._slots = (_slot_type * _SLOTS)()
        for i in range(_SLOTS):
            self._slots[i] = ctypes.cast(ctypes.byref(self._functions, i * ctypes.sizeof(ctypes.c_void_p)), _slot_type)
        self._get_module = _get_module_type(self._module)
        self._callbacks = _Callbacks(ctypes.sizeof(_Callbacks), self._get_module)
        self._get_table = _get_table_type(self._table)
        initialize = ctypes.CDLL(path).InitializeInjectionNvtx2
        initialize.argtypes, initialize.restype = [_get_table_type], ctypes.c_int
        if not initialize(self._get_table):
            raise OSError(f"{path}: the NVTX tool refused this process")
        self.mark = self._function(_MARK, None, ctypes.c_char_p)
        self.push = self._function(_PUSH, ctypes.c_int, ctypes.c_char_p)
        self.pop = self._function(_POP, ctypes.c_int)

    def _module(self, module, table, count):
        if module != _MODULE_CORE:
            return 0
        table[0] = ctypes.cast(self._slots, ctypes.POINTER(_slot_type))
        count[0] = _SLOTS
        return 1

    def _table(self, number):
        return ctypes.addressof(self._callbacks) if number == _TABLE_CALLBACKS else None

    def _function(self, slot, result, *arguments):
        address = self._functions[slot]
        return ctypes.CFUNCTYPE(result, *arguments)(address) if address else lambda *_: 0


_lock = threading.Lock()
_known = False
_client = None


def client():
    """The client of the tool named in the environment; None without one, or if the tool cannot be loaded."""
    return _client if _known else _load()


def _load():
    global _known, _client
    with _lock:
        path = os.environ.get("NVTX_INJECTION64_PATH")
        if not _known and path:
            try:
                _client = Client(path)
            except (OSError, AttributeError):  # a missing tool must not end the program
                _client = None
        _known = True
    return _client
