"""NVTX ranges in a domain, under plain names, so that the filters of Nsight find them ("inferprof@prefill").

torch's NVTX binding has no domains. This module calls the tool named by NVTX_INJECTION64_PATH directly, as NVTX's headers do: the tool
gets tables of function pointers and overwrites them with its own functions. If a tool refuses that, NVTX's own library is used, if it
is installed. In the domain "inferprof" the category is the meaning of a range (src/collect/nvtx.h).
"""
import ctypes
import glob
import os
import sys

NAME = b"inferprof"
USER, STAGE = 0, 1  # categories

_PUSH, _POP, _CREATE = 4, 5, 12  # nvtxDomainRangePushEx, nvtxDomainRangePop, nvtxDomainCreateA
_CORE2 = 5
_MODULES = {1: 16, 2: 9, 3: 15, 4: 7, _CORE2: 16, 6: 7}  # ids of each module of NVTX, 0 included; tools expect all modules
_TABLE_CALLBACKS, _TABLE_VERSION = 1, 3
_NVTX_VERSION = 3
_TEXT_ASCII = 1

_slot = ctypes.POINTER(ctypes.c_void_p)
_get_module = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.POINTER(_slot)), ctypes.POINTER(ctypes.c_uint))
_get_table = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
_set_version = ctypes.CFUNCTYPE(None, ctypes.c_uint32)


class _Callbacks(ctypes.Structure):  # NvtxExportTableCallbacks
    _fields_ = [("bytes", ctypes.c_size_t), ("get_module", _get_module)]


class _Version(ctypes.Structure):  # NvtxExportTableVersionInfo
    _fields_ = [("bytes", ctypes.c_size_t), ("version", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("set_version", _set_version)]


class _Attributes(ctypes.Structure):  # nvtxEventAttributes_t
    _fields_ = [("version", ctypes.c_uint16), ("size", ctypes.c_uint16), ("category", ctypes.c_uint32), ("color_type", ctypes.c_int32),
                ("color", ctypes.c_uint32), ("payload_type", ctypes.c_int32), ("reserved", ctypes.c_int32), ("payload", ctypes.c_uint64),
                ("text_type", ctypes.c_int32), ("text", ctypes.c_char_p)]


class _Tool:
    """The functions of a tool. Keeps all memory that the tool may call or write to."""

    def __init__(self, path):
        self._functions = {m: (ctypes.c_void_p * (n + 1))() for m, n in _MODULES.items()}
        self._slots = {m: self._slots_of(f) for m, f in self._functions.items()}
        self._keep = _get_module(self._module), _set_version(lambda version: None)
        self._callbacks = _Callbacks(ctypes.sizeof(_Callbacks), self._keep[0])
        self._version = _Version(ctypes.sizeof(_Version), _NVTX_VERSION, 0, self._keep[1])
        tables = {_TABLE_CALLBACKS: ctypes.addressof(self._callbacks), _TABLE_VERSION: ctypes.addressof(self._version)}
        self._tables = _get_table(tables.get)
        initialize = ctypes.CDLL(path).InitializeInjectionNvtx2
        initialize.argtypes, initialize.restype = [_get_table], ctypes.c_int
        if not initialize(self._tables):
            raise OSError(f"{path}: the NVTX tool refused to start")
        if not all(self._functions[_CORE2][i] for i in (_PUSH, _POP, _CREATE)):
            raise OSError(f"{path}: the NVTX tool has no domains")

    @staticmethod
    def _slots_of(functions):
        slots = (_slot * len(functions))()
        for i in range(1, len(functions) - 1):  # the first and the last entry are NULL
            slots[i] = ctypes.cast(ctypes.byref(functions, i * ctypes.sizeof(ctypes.c_void_p)), _slot)
        return slots

    def _module(self, module, table, count):
        if module not in self._slots:
            return 0
        if table:
            table[0] = ctypes.cast(self._slots[module], ctypes.POINTER(_slot))
        if count:
            count[0] = _MODULES[module]
        return 1

    def function(self, number, _name):
        return self._functions[_CORE2][number]


class _Library:
    """NVTX's own library: libnvtx3interop since CUDA 12.6, libnvToolsExt before."""

    def __init__(self):
        names = ("libnvtx3interop.so.1", "libnvToolsExt.so.1")
        folders = ["", *glob.glob("/usr/local/cuda*/lib64/"), *(d for p in sys.path for d in glob.glob(os.path.join(p, "nvidia", "*", "lib", "")))]
        for path in (folder + name for name in names for folder in folders):
            try:
                self._library = ctypes.CDLL(path)
                return
            except OSError:
                pass
        raise OSError("no NVTX library")

    def function(self, _number, name):
        return ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value


class Domain:
    """The domain in a tool or in NVTX's library."""

    def __init__(self, functions):
        self._functions = functions  # must not be freed
        handle = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(functions.function(_CREATE, "nvtxDomainCreateA"))(NAME)
        push = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_Attributes))(functions.function(_PUSH, "nvtxDomainRangePushEx"))
        pop = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(functions.function(_POP, "nvtxDomainRangePop"))
        self.pop = lambda: pop(handle)
        self._push = lambda attributes: push(handle, ctypes.byref(attributes))

    def push(self, category, name):
        self._push(_Attributes(version=3, size=ctypes.sizeof(_Attributes), category=category, text_type=_TEXT_ASCII,
                               text=name.encode("utf-8", "replace")))


_domain = []
problems = []  # why there is no domain


def find():
    """The domain of the tool named in the environment; None without one, or if it cannot be loaded."""
    path = os.environ.get("NVTX_INJECTION64_PATH")
    if not _domain and path:
        for functions in (lambda: _Tool(path), _Library):
            try:
                _domain.append(Domain(functions()))
                break
            except (OSError, AttributeError) as e:  # a missing tool must not end the engine
                problems.append(str(e))
    if not _domain:
        _domain.append(None)
    return _domain[0]
