"""Arrays of other libraries where they lie, without a copy: what has `__dlpack__`, on this machine
or on a GPU, and what has `__cuda_array_interface__`.

DLPack hands out a capsule with a struct (dlpack.h, versions 0.8 and 1.0): it is read here, because
NumPy's own reader knows neither bfloat16 nor the memory of a GPU. The capsule stays as long as the
array does, and frees what it holds when it goes.
"""

from __future__ import annotations

from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
    py_object,
    pythonapi,
)
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from explorer.errors import BadOption, DtypeError
from explorer.ir.dtypes import numpy_dtype

CPU, CUDA, PINNED, MANAGED = 1, 2, 3, 13  # dlpack.h, DLDeviceType
KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool"}  # DLDataTypeCode
READ_ONLY = 1  # of flags
VERSION = (1, 0)  # that is asked for
OLD, NEW = b"dltensor", b"dltensor_versioned"


class _Tensor(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device", c_int32),
        ("number", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class _Managed(Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


class _Versioned(Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    )


_is_valid = pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = c_int, [py_object, c_char_p]
_pointer = pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [py_object, c_char_p]


@dataclass(frozen=True, eq=False, slots=True)
class BorrowedArray:
    """An array of somebody else's: on which device, at which address, with strides in bytes;
    `owner` keeps it there.
    """

    device: int
    number: int
    address: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_read_only: bool
    owner: object

    @property
    def is_here(self) -> bool:
        """Whether this machine's processor reads it."""
        return self.device in (CPU, PINNED, MANAGED)

    @property
    def is_contiguous(self) -> bool:
        """Whether its elements follow one another, the last dim fastest."""
        steps = np.cumprod([self.dtype.itemsize, *self.shape[:0:-1]])[::-1]
        rows = zip(self.shape, self.strides, steps.tolist(), strict=True)
        return 0 in self.shape or all(n == 1 or s == step for n, s, step in rows)

    def array(self) -> np.ndarray:
        """The same memory as an array of NumPy's, where it is of this machine."""
        return np.asarray(_Held(self)).view(self.dtype)

    def on_gpu(self) -> OnGpuMemory:
        """The same memory as what numba-cuda takes."""
        return OnGpuMemory(self)


class _Held:
    """What NumPy makes an array of, which keeps it."""

    def __init__(self, lent: BorrowedArray) -> None:
        self.lent = lent
        self.__array_interface__ = {**_interface(lent), "version": 3}


class OnGpuMemory:
    """Memory of a GPU that is known by DLPack, as numba-cuda takes it."""

    def __init__(self, lent: BorrowedArray) -> None:
        self.lent = lent
        self.__cuda_array_interface__ = {**_interface(lent), "version": 3}


def _interface(lent: BorrowedArray) -> dict[str, Any]:
    plain = lent.dtype.kind in "biuf"
    typestr = lent.dtype.str if plain else f"<u{lent.dtype.itemsize}"  # bits, which are its own
    return {
        "shape": lent.shape,
        "typestr": typestr,
        "data": (lent.address, lent.is_read_only),
        "strides": lent.strides,
    }


def borrow_array(name: str, x: Any) -> BorrowedArray | None:
    """An array that another library lends; None of what is no such array, or NumPy's own.

    Raises BadOption where the library does not lend it, DtypeError where it has elements that no
    tensor has, each in a sentence that names the input or output.
    """
    if isinstance(x, np.ndarray):
        return None
    told = _told(x)  # before DLPack, whose old capsules do not say what may be written
    if told is not None:
        return _by_interface(name, told, x)
    both = hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")
    return _by_dlpack(name, x) if both else None


def _told(x: Any) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] | None = getattr(x, "__cuda_array_interface__", None)
    except Exception:  # PyTorch's, of elements that it has no word for
        return None
    return found


def readable(name: str, x: Any) -> Any:
    """Return a NumPy array over a tensor on this machine that is only read; other objects are
    returned unchanged. A tensor of PyTorch may require a gradient, or be a negated view.

    Raises BadOption where it lies on another device.
    """
    if getattr(x, "requires_grad", False) is True:
        x = x.detach()
    if hasattr(x, "resolve_neg"):
        x = x.resolve_neg()
    return as_host_array(name, x)


def as_host_array(name: str, x: Any) -> Any:
    """An array of NumPy's over what lies on this machine; what is lent by nobody stays.

    Raises BadOption where it lies on another device.
    """
    found = borrow_array(name, x)
    if found is None:
        return x
    if not found.is_here:
        raise BadOption(
            f"{name!r} lies on a GPU, and this program runs on the CPU of this machine",
            where=name,
            try_=f"{name}.cpu(), which copies it, or on_gpu()",
        )
    return found.array()


def writable(name: str, x: Any) -> np.ndarray:
    """An array of NumPy's that an output goes to, over what lies on this machine.

    Raises BadOption where it lies elsewhere, or may only be read.
    """
    found = np.asarray(as_host_array(name, x))
    repeated = any(step == 0 and n > 1 for step, n in zip(found.strides, found.shape, strict=True))
    if repeated and found.size:
        raise BadOption(
            f"the array for the output {name!r} has one place for several elements",
            where=name,
            try_="a copy of it",
        )
    if not found.flags.writeable:
        raise BadOption(
            f"the array for the output {name!r} may only be read",
            where=name,
            try_="an array that was made by NumPy or PyTorch",
        )
    return found


def _by_dlpack(name: str, x: Any) -> BorrowedArray:
    try:
        capsule = _capsule(x)
    except Exception as problem:  # each library has its own
        words = str(problem).strip().split("\n")[0]
        raise BadOption(f"{name!r} is not lent by {_library(x)}: {words}", where=name) from problem
    if _is_valid(capsule, NEW):
        new = _Versioned.from_address(_pointer(capsule, NEW))
        if new.major != VERSION[0]:
            what = f"{name!r} is lent in version {new.major} of DLPack, {VERSION[0]} is known"
            raise BadOption(what, where=name)
        return _read(name, new.tensor, bool(new.flags & READ_ONLY), capsule)
    if not _is_valid(capsule, OLD):
        raise BadOption(f"{name!r} is lent in a capsule that is not DLPack's", where=name)
    # an old one does not tell, so that nobody writes there
    return _read(name, _Managed.from_address(_pointer(capsule, OLD)).tensor, True, capsule)


def _capsule(x: Any) -> Any:
    try:
        return x.__dlpack__(max_version=VERSION)
    except TypeError:  # of before there were versions
        return x.__dlpack__()


def _library(x: Any) -> str:
    return type(x).__module__.split(".")[0]


def _read(name: str, t: _Tensor, is_read_only: bool, capsule: Any) -> BorrowedArray:
    kind = KINDS.get(t.code, "")
    dtype = "bool" if kind == "bool" else f"{kind}{t.bits}"
    try:
        if not kind or t.lanes != 1 or (kind == "bool" and t.bits != 8):
            raise TypeError
        found = numpy_dtype(dtype)
    except TypeError as problem:
        what = f"{name!r} has elements of DLPack's kind {t.code} with {t.bits} bits, which no"
        raise DtypeError(f"{what} tensor has", where=name) from problem
    shape = tuple(t.shape[n] for n in range(t.ndim))
    dense = [prod(shape[n + 1 :]) for n in range(t.ndim)]
    steps = [t.strides[n] for n in range(t.ndim)] if t.strides else dense
    strides = tuple(s * found.itemsize for s in steps)
    address = (t.data or 0) + t.byte_offset
    return BorrowedArray(t.device, t.number, address, found, shape, strides, is_read_only, capsule)


def _by_interface(name: str, told: dict[str, Any], x: Any) -> BorrowedArray:
    dtype, shape = np.dtype(told["typestr"]), tuple(map(int, told["shape"]))
    if dtype.kind not in "biuf":
        what = f"{name!r} has elements of {told['typestr']}, which no tensor has"
        raise DtypeError(what, where=name)
    strides = told.get("strides")
    if strides is None:
        strides = tuple(dtype.itemsize * prod(shape[n + 1 :]) for n in range(len(shape)))
    address, is_read_only = told.get("data", (0, False))
    return BorrowedArray(CUDA, -1, address or 0, dtype, shape, tuple(strides), is_read_only, x)
