"""Arrays of other libraries without a copy, through DLPack or `__cuda_array_interface__`.

They are on this machine or on a GPU. DLPack hands out a capsule with a struct (dlpack.h, versions
0.8 and 1.0). It is read here, because NumPy's own reader knows neither bfloat16 nor the memory of a
GPU. The capsule lives as long as the array, and frees its memory at the end.
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
VERSION = (1, 0)  # requested
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
    """An array of another library: device, address, strides in bytes; `owner` keeps it alive."""

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
        """True if this machine's processor can read it."""
        return self.device in (CPU, PINNED, MANAGED)

    @property
    def is_contiguous(self) -> bool:
        """True if its elements follow one another, the last dim fastest."""
        steps = np.cumprod([self.dtype.itemsize, *self.shape[:0:-1]])[::-1]
        rows = zip(self.shape, self.strides, steps.tolist(), strict=True)
        return 0 in self.shape or all(n == 1 or s == step for n, s, step in rows)

    def array(self) -> np.ndarray:
        """Return the same memory as a NumPy array, if it is on this machine."""
        return np.asarray(_HostMemory(self)).view(self.dtype)

    def on_gpu(self) -> OnGpuMemory:
        """Return the same memory as an object that numba-cuda accepts."""
        return OnGpuMemory(self)


class _HostMemory:
    """Exporter of borrowed memory to NumPy, whose array keeps it alive."""

    def __init__(self, borrowed: BorrowedArray) -> None:
        self.borrowed = borrowed
        self.__array_interface__ = {**_interface(borrowed), "version": 3}


class OnGpuMemory:
    """Exporter of GPU memory known by DLPack to numba-cuda."""

    def __init__(self, borrowed: BorrowedArray) -> None:
        """Export the memory of a borrowed array."""
        self.borrowed = borrowed
        self.__cuda_array_interface__ = {**_interface(borrowed), "version": 3}


def _interface(borrowed: BorrowedArray) -> dict[str, Any]:
    plain = borrowed.dtype.kind in "biuf"
    # raw bits: the dtype is no NumPy standard
    typestr = borrowed.dtype.str if plain else f"<u{borrowed.dtype.itemsize}"
    return {
        "shape": borrowed.shape,
        "typestr": typestr,
        "data": (borrowed.address, borrowed.is_read_only),
        "strides": borrowed.strides,
    }


def borrow_array(name: str, x: Any) -> BorrowedArray | None:
    """Return an array that another library lends.

    Return None for NumPy arrays and for objects without DLPack.

    Raises:
        BadOption: The library does not lend the array.
        DtypeError: No tensor has elements of its dtype.
    """
    if isinstance(x, np.ndarray):
        return None
    interface = _cuda_interface(x)  # before DLPack, whose old capsules lack a read-only flag
    if interface is not None:
        return _borrow_by_interface(name, interface, x)
    both = hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")
    return _borrow_by_dlpack(name, x) if both else None


def _cuda_interface(x: Any) -> dict[str, Any] | None:
    try:
        interface: dict[str, Any] | None = getattr(x, "__cuda_array_interface__", None)
    except Exception:  # PyTorch raises for dtypes without a typestr
        return None
    return interface


def readable(name: str, x: Any) -> Any:
    """Return a NumPy array over a tensor on this machine that is only read.

    Other objects are returned unchanged. A tensor of PyTorch may require a gradient, or be a
    negated view.

    Raises:
        BadOption: The tensor is on another device.
    """
    if getattr(x, "requires_grad", False) is True:
        x = x.detach()
    if hasattr(x, "resolve_neg"):
        x = x.resolve_neg()
    return as_host_array(name, x)


def as_host_array(name: str, x: Any) -> Any:
    """Return a NumPy array over an array on this machine; other objects are returned unchanged.

    Raises:
        BadOption: The array is on another device.
    """
    borrowed = borrow_array(name, x)
    if borrowed is None:
        return x
    if not borrowed.is_here:
        raise BadOption(
            f"{name!r} lies on a GPU, and this program runs on the CPU of this machine",
            where=name,
            try_=f"{name}.cpu(), which copies it, or on_gpu()",
        )
    return borrowed.array()


def writable(name: str, x: Any) -> np.ndarray:
    """Return a NumPy array for an output, over an array on this machine.

    Raises:
        BadOption: The array is on another device, or read-only.
    """
    array = np.asarray(as_host_array(name, x))
    repeated = any(step == 0 and n > 1 for step, n in zip(array.strides, array.shape, strict=True))
    if repeated and array.size:
        raise BadOption(
            f"the array for the output {name!r} stores several elements at one address",
            where=name,
            try_="a copy of it",
        )
    if not array.flags.writeable:
        raise BadOption(
            f"the array for the output {name!r} is read-only",
            where=name,
            try_="an array of NumPy or PyTorch",
        )
    return array


def _borrow_by_dlpack(name: str, x: Any) -> BorrowedArray:
    try:
        capsule = _capsule(x)
    except Exception as problem:  # each library raises its own
        words = str(problem).strip().split("\n")[0]
        raise BadOption(
            f"{name!r} cannot be shared by {_library(x)}: {words}", where=name
        ) from problem
    if _is_valid(capsule, NEW):
        new = _Versioned.from_address(_pointer(capsule, NEW))
        if new.major != VERSION[0]:
            what = f"{name!r} uses version {new.major} of DLPack, and {VERSION[0]} is supported"
            raise BadOption(what, where=name)
        return _read(name, new.tensor, bool(new.flags & READ_ONLY), capsule)
    if not _is_valid(capsule, OLD):
        raise BadOption(f"{name!r} is in a capsule that is not DLPack's", where=name)
    # an old capsule has no flag, so it counts as read-only
    return _read(name, _Managed.from_address(_pointer(capsule, OLD)).tensor, True, capsule)


def _capsule(x: Any) -> Any:
    try:
        return x.__dlpack__(max_version=VERSION)
    except TypeError:  # older than versions
        return x.__dlpack__()


def _library(x: Any) -> str:
    return type(x).__module__.split(".")[0]


def _read(name: str, t: _Tensor, is_read_only: bool, capsule: Any) -> BorrowedArray:
    kind = KINDS.get(t.code, "")
    dtype = "bool" if kind == "bool" else f"{kind}{t.bits}"
    try:
        if not kind or t.lanes != 1 or (kind == "bool" and t.bits != 8):
            raise TypeError
        dtype_ = numpy_dtype(dtype)
    except TypeError as problem:
        what = f"{name!r} has elements of DLPack's kind {t.code} with {t.bits} bits, which no"
        raise DtypeError(f"{what} tensor has", where=name) from problem
    shape = tuple(t.shape[n] for n in range(t.ndim))
    dense = [prod(shape[n + 1 :]) for n in range(t.ndim)]
    element_strides = [t.strides[n] for n in range(t.ndim)] if t.strides else dense
    strides = tuple(s * dtype_.itemsize for s in element_strides)
    address = (t.data or 0) + t.byte_offset
    return BorrowedArray(t.device, t.number, address, dtype_, shape, strides, is_read_only, capsule)


def _borrow_by_interface(name: str, interface: dict[str, Any], x: Any) -> BorrowedArray:
    dtype, shape = np.dtype(interface["typestr"]), tuple(map(int, interface["shape"]))
    if dtype.kind not in "biuf":
        what = f"{name!r} has elements of {interface['typestr']}, which no tensor has"
        raise DtypeError(what, where=name)
    strides = interface.get("strides")
    if strides is None:
        strides = tuple(dtype.itemsize * prod(shape[n + 1 :]) for n in range(len(shape)))
    address, is_read_only = interface.get("data", (0, False))
    return BorrowedArray(CUDA, -1, address or 0, dtype, shape, tuple(strides), is_read_only, x)
