"""Arrays of other libraries are read and written where they lie, or refused in one sentence."""

from __future__ import annotations

import gc
import weakref
from ctypes import addressof, c_char_p, c_int64, c_void_p, py_object, pythonapi
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption, DtypeError, IronworksError, ShapeError
from explorer.ir.dtypes import numpy_dtype
from explorer.process.garbage import rare_collections
from explorer.runtime.dlpack import CPU, CUDA, OLD, _Managed, _Tensor, as_host_array, borrow_array

CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "b": 6, "c": 5}


class Lends:
    """An array of a library that has nothing but DLPack; `versions`: from 1.0 on."""

    def __init__(self, array: np.ndarray, versions: bool = True) -> None:
        self.held, self.versions = array, versions

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(self, **asked: Any) -> Any:
        if asked and not self.versions:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        return self.held.__dlpack__(**asked)


class Made:
    """A capsule of before there were versions, with whatever device, dtype and strides."""

    def __init__(
        self, array: np.ndarray, device: int = CPU, number: int = 0, code: int = -1, lanes: int = 1
    ) -> None:
        self.held, self.device, self.number = array, device, number
        self.shape = (c_int64 * array.ndim)(*array.shape)
        steps = [s // array.itemsize for s in array.strides]
        self.strides = (c_int64 * array.ndim)(*steps)
        code = CODES[array.dtype.kind] if code < 0 else code
        self.managed = _Managed(
            _Tensor(
                array.ctypes.data, device, number, array.ndim, code, 8 * array.itemsize, lanes,
                self.shape, self.strides, 0,
            )
        )  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, self.number

    def __dlpack__(self) -> Any:
        new = pythonapi.PyCapsule_New
        new.restype, new.argtypes = py_object, [c_void_p, c_char_p, c_void_p]
        return new(addressof(self.managed), OLD, None)


@explorer.trace
def doubled(x: explorer.tensor("float32", "n", 4)):  # type: ignore[valid-type,no-untyped-def]
    return x + x


X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "bool", "float16"])
def test_what_is_lent_is_the_same_memory(dtype: str, versions: bool) -> None:
    x = np.ones((3, 4), dtype)
    for own in (x, x[:, ::2], x.T, x[:0], x[0, 0, ...]):
        found = as_host_array("x", Lends(own, versions))
        assert found.dtype == own.dtype and found.shape == own.shape
        np.testing.assert_array_equal(found, own)
        assert not own.size or np.shares_memory(found, x)
        assert found.flags.writeable == versions  # an old one does not tell


def test_bfloat16_is_lent() -> None:
    x = np.arange(6).reshape(2, 3).astype(numpy_dtype("bfloat16"))
    found = as_host_array("x", Made(x))
    assert found.dtype == x.dtype and np.shares_memory(found, x)
    np.testing.assert_array_equal(found, x)


def test_the_memory_stays_as_long_as_the_array() -> None:
    with rare_collections():  # what was there before is not looked through
        x = X.copy()
        gone = weakref.ref(x)
        found = as_host_array("x", Lends(x))
        del x
        gc.collect()
        np.testing.assert_array_equal(found, X)
        assert gone() is not None
        del found
        gc.collect()
        assert gone() is None


def test_inputs_and_outputs_are_read_and_written_where_they_lie() -> None:
    c = explorer.compile(doubled)
    y = np.zeros((3, 4), np.float32)
    (name,) = c.run({"x": X})
    place = Lends(y)
    found = c.run({"x": Lends(X)}, out={name: place})
    assert found[name] is place
    np.testing.assert_array_equal(y, X + X)
    np.testing.assert_array_equal(c.run(Lends(X, False))[name], X + X)


class Refuses:
    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0

    def __dlpack__(self, **asked: Any) -> Any:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")


class OnCuda:
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (3, 4), "typestr": "<f4", "data": (64, False)}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (Made(X, CUDA), "'x' lies on a GPU, and this program runs on the CPU"),
        (OnCuda(), "'x' lies on a GPU, and this program runs on the CPU"),
        (Refuses(), "'x' cannot be shared by .*require gradient"),
        (Made(X.astype("c8")), "'x' has elements of DLPack's kind 5"),
        (Made(X, lanes=2), "'x' has elements of DLPack's kind 2 with 32 bits"),
        (Made(X, code=9), "'x' has elements of DLPack's kind 9"),
    ],
)
def test_what_cannot_be_read_is_told(given: Any, sentence: str) -> None:
    with pytest.raises(IronworksError, match=sentence) as told:
        explorer.compile(doubled).run({"x": given})
    assert isinstance(told.value, BadOption | DtypeError)


def test_what_may_only_be_read_is_no_output() -> None:
    c = explorer.compile(doubled)
    (name,) = c.run({"x": X})
    fixed = np.zeros((3, 4), np.float32)
    fixed.flags.writeable = False
    for place in (fixed, Lends(np.zeros((3, 4), np.float32), versions=False)):
        with pytest.raises(BadOption, match=f"the output '{name}' is read-only"):
            c.run({"x": X}, out={name: place})
    with pytest.raises(BadOption, match="lies on a GPU"):
        c.run({"x": X}, out={name: Made(X, CUDA)})


def test_strides_tell_what_is_contiguous() -> None:
    one = borrow_array("x", Made(X, CUDA, 1))
    assert one is not None and one.is_contiguous and (one.device, one.number) == (CUDA, 1)
    told = one.on_gpu().__cuda_array_interface__
    assert told["data"][0] == X.ctypes.data and told["typestr"] == "<f4"
    for x, contiguous in ((X.T, False), (X[:, :2], False), (X[:1], True), (X[:0, ::2], True)):
        found = borrow_array("x", Made(x, CUDA))
        assert found is not None and found.is_contiguous == contiguous
    assert borrow_array("x", X) is None and borrow_array("x", 3.0) is None


def test_arrays_of_jax_are_taken_as_they_are() -> None:
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X)
    found = as_host_array("x", x)
    assert found.ctypes.data == x.unsafe_buffer_pointer() and not found.flags.writeable
    c = explorer.compile(doubled)
    np.testing.assert_array_equal(next(iter(c.run({"x": x}).values())), X + X)


def test_tensors_of_torch_are_taken_as_they_are() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.from_numpy(X.copy()), torch.zeros(3, 4)
    assert as_host_array("x", x).ctypes.data == x.data_ptr()
    c = explorer.compile(doubled)
    (name,) = c.run({"x": x})
    assert c.run({"x": x}, out={name: y})[name] is y
    np.testing.assert_array_equal(y.numpy(), X + X)
    given = x.requires_grad_()
    np.testing.assert_array_equal(c.run({"x": given})[name], X + X)
    np.testing.assert_array_equal(c.run({"x": given.detach()._neg_view()})[name], -X - X)
    with pytest.raises(BadOption, match="cannot be shared by torch"):
        c.run({"x": x}, out={name: torch.zeros(3, 4).requires_grad_()})
    with pytest.raises(BadOption, match="stores several elements at one address"):
        c.run({"x": x}, out={name: torch.zeros(4).expand(3, 4)})


@explorer.trace
def added(x: explorer.tensor("float32", 2, 2), k: explorer.tensor("int8")):  # type: ignore
    return x + k


def test_lists_of_numbers_take_the_dtype_of_the_input() -> None:
    c = explorer.compile(added)
    (found,) = c.run([[1, 2.5], [True, 4]], -3).values()
    assert found.dtype == np.float32 and found.tolist() == [[-2, -0.5], [-2, 1]]
    with pytest.raises(DtypeError, match="the input 'k' is int8, which cannot hold 300"):
        c.run([[1, 2], [3, 4]], 300)
    with pytest.raises(ShapeError, match="the input 'x' is given as lists that are no array"):
        c.run([[1, 2], [3]], 1)
    with pytest.raises(DtypeError):
        c.run([[1, 2], [3, 4]], 1.5)
