"""NVTX ranges in a domain, under plain names, so that the filters of Nsight find them ("inferprof@prefill").

torch's NVTX binding has no domains. This module calls the tool named by NVTX_INJECTION64_PATH directly, as NVTX's headers do: the tool
gets tables of function pointers and overwrites them with its own functions. In the domain "inferprof" the category is the meaning
of a range (src/collect/nvtx.h).
"""
import ctypes
import os

NAME = b"inferprof"
USER, STAGE = 0, 1  # categories

_SLOTS = 17
_PUSH, _POP, _CREATE = 4, 5, 12  # nvtxDomainRangePushEx, nvtxDomainRangePop, nvtxDomainCreateA
_MODULE_CORE, _MODULE_CORE2 = 1, 5  # tools expect both
_TABLE_CALLBACKS = 1
_TEXT_ASCII = 1

_slot = ctypes.POINTER(ctypes.c_void_p)
_get_module = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(_slot)), ctypes.POINTER(ctypes.c_uint))
_get_table = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)


class _Callbacks(ctypes.Structure):  # NvtxExportTableCallbacks
    _fields_ = [("bytes", ctypes.c_size_t), ("get_module", _get_module)]


class _Attributes(ctypes.Structure):  # nvtxEventAttributes_t
    _fields_ = [("version", ctypes.c_uint16), ("size", ctypes.c_uint16), ("category", ctypes.c_uint32), ("color_type", ctypes.c_int32),
                ("color", ctypes.c_uint32), ("payload_type", ctypes.c_int32), ("reserved", ctypes.c_int32), ("payload", ctypes.c_uint64),
                ("text_type", ctypes.c_int32), ("text", ctypes.c_char_p)]


class Domain:
    """The domain in the loaded tool. Keeps all memory that the tool may call or write to."""

    def __init__(self, path):
        self._unused, self._functions = (ctypes.c_void_p * _SLOTS)(), (ctypes.c_void_p * _SLOTS)()
        self._slots = {_MODULE_CORE: self._slots_of(self._unused), _MODULE_CORE2: self._slots_of(self._functions)}
        self._keep = _get_module(self._module)
        self._callbacks = _Callbacks(ctypes.sizeof(_Callbacks), self._keep)
        self._tables = _get_table(lambda number: ctypes.addressof(self._callbacks) if number == _TABLE_CALLBACKS else None)
        initialize = ctypes.CDLL(path).InitializeInjectionNvtx2
        initialize.argtypes, initialize.restype = [_get_table], ctypes.c_int
        if not initialize(self._tables) or not all(self._functions[i] for i in (_PUSH, _POP, _CREATE)):
            raise OSError(f"{path}: the NVTX tool has no domains")
        handle = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(self._functions[_CREATE])(NAME)
        push = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Attributes))(self._functions[_PUSH])
        pop = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._functions[_POP])
        self.pop = lambda: pop(handle)
        self._push = lambda attributes: push(handle, ctypes.byref(attributes))

    @staticmethod
    def _slots_of(functions):
        slots = (_slot * _SLOTS)()
        for i in range(_SLOTS):
            slots[i] = ctypes.cast(ctypes.byref(functions, i * ctypes.sizeof(ctypes.c_void_p)), _slot)
        return slots

    def _module(self, module, table, count):
        if module not in self._slots:
            return 0
        table[0] = ctypes.cast(self._slots[module], ctypes.POINTER(_slot))
        count[0] = _SLOTS - 1
        return 1

    def push(self, category, name):
        self._push(_Attributes(version=3, size=ctypes.sizeof(_Attributes), category=category, text_type=_TEXT_ASCII,
                               text=name.encode("utf-8", "replace")))


_domain = []


def find():
    """The domain of the tool named in the environment; None without one, or if it cannot be loaded."""
    if not _domain:
        path = os.environ.get("NVTX_INJECTION64_PATH")
        try:
            _domain.append(Domain(path) if path else None)
        except (OSError, AttributeError):  # a missing tool must not end the engine
            _domain.append(None)
    return _domain[0]
