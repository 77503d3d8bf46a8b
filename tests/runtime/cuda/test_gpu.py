"""What a GPU is asked for, and what it answers where something is wrong, by a driver that is none:
its device is the stand-in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_int64, c_void_p, memmove
from enum import IntEnum
from gc import collect
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from explorer.codegen.cuda.persistent import TABLES, ProgramSource
from explorer.codegen.cuda.simulator import run_program_source
from explorer.errors import BadOption, DeviceFault, IronworksError, ShapeError
from explorer.process.garbage import rare_collections
from explorer.runtime.cuda.gpu import Gpu, StreamCalls
from explorer.runtime.cuda.run import ProgramRun
from explorer.runtime.dlpack import CUDA
from tests.runtime.cuda.test_program import UNITS, agree, compiled
from tests.runtime.test_dlpack import Made


class Array(np.ndarray):
    """Device memory, at an address of this machine."""

    @property
    def device_ctypes_pointer(self) -> Any:
        return SimpleNamespace(value=self.ctypes.data)

    def is_c_contiguous(self) -> bool:
        return bool(self.flags.c_contiguous)


class Here(StreamCalls):
    """Copies at once."""

    def __init__(self) -> None:
        self.waited = 0

    def copy_to_device(self, to: int, array: np.ndarray) -> None:
        memmove(to, array.ctypes.data, array.nbytes)

    def copy_to_host(self, array: np.ndarray, at: int) -> None:
        memmove(array.ctypes.data, at, array.nbytes)

    def copy_on_device(self, to: int, at: int, count: int) -> None:
        memmove(to, at, count)

    def wait(self) -> None:
        self.waited += 1


class Cuda(SimpleNamespace):
    """The part of numba.cuda that is used; `fails` are the words of the driver at a launch."""

    def __init__(self, places: int = UNITS, room: int = 1 << 24, capability: Any = (8, 0)) -> None:
        super().__init__()
        self.places, self.room, self.capability, self.fails = places, room, capability, ""
        self.contexts, self.pinned, self.there = 1, 0, True

    def is_available(self) -> bool:
        return self.there

    def get_current_device(self) -> Any:
        return SimpleNamespace(
            name=b"a device", compute_capability=self.capability, MULTIPROCESSOR_COUNT=1
        )

    def current_context(self) -> Any:
        return SimpleNamespace(get_active_blocks_per_multiprocessor=lambda *_: self.places)

    def as_cuda_array(self, array: Any) -> Any:
        told = array.__cuda_array_interface__
        held = SimpleNamespace(__array_interface__={**told, "version": 3})
        return np.asarray(held).view(Array)

    def stream(self) -> Any:
        return SimpleNamespace(number=1, synchronize=lambda: None)

    def close(self) -> None:
        self.contexts += 1

    def device_array(self, count: int, dtype: Any) -> Array:
        if count > self.room:
            raise RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")
        return np.full(count, 0xFF, dtype).view(Array)

    def pinned_array(self, count: int, dtype: Any) -> np.ndarray:
        self.pinned += 1
        return np.empty(count, dtype)

    def to_device(self, array: np.ndarray, stream: Any) -> Array:
        return array.copy().view(Array)


class Failed(IntEnum):
    """What CUDA's driver answers."""

    CUDA_ERROR_LAUNCH_FAILED = 719


class OnStandIn(Gpu):
    """Its kernels run in Python."""

    def _function(self, source: ProgramSource) -> Any:
        return source.source

    def on(self, stream: Any) -> StreamCalls:
        assert stream.number == 1
        return Here()

    def start(self, source: ProgramSource, units: int, arrays: Sequence[Any]) -> Callable[[], None]:
        def go() -> None:
            if self.cuda.fails:
                raise RuntimeError(f"[719] Call to cuLaunchKernel results in {self.cuda.fails}")
            names = (*TABLES, *(f"memory_{d}" for d in source.memories))
            given = {n: np.asarray(a) for n, a in zip(names, arrays, strict=True)}
            run_program_source(source.source, units, source.threads, source.shared_bytes, given)

        return go


@pytest.mark.exhaustive
def test_a_gpu_makes_what_the_cpu_makes() -> None:
    c, cuda = compiled("zoo:small_lstm"), Cuda()
    run = ProgramRun(c.device_program(units=UNITS), OnStandIn(cuda))
    inputs = c.random_inputs()
    want = compiled("zoo:small_lstm", "cpu").run(inputs)
    agree(run.run(inputs), want)
    before = cuda.pinned
    agree(run.run(inputs), want)
    assert cuda.pinned == before  # constants lie there already, and inputs have their places
    assert run.wall().kind == "measured" and run.wall().device == "a device"


def test_a_launch_keeps_what_its_kernel_is_given() -> None:
    """Words at addresses that stay, in the order of the kernel's parameters, for each launch."""
    seen: list[tuple[int, ...]] = []

    def launched(*given: Any) -> tuple[int]:
        function, *shape, stream, at, extra = given
        assert (function, shape, stream, extra) == ("code", [3, 1, 1, 64, 1, 1, 512], 7, 0)
        words = (c_void_p * 14).from_address(at)
        seen.append(tuple(c_int64.from_address(w).value for w in words if w))
        return (0,)

    calls = StreamCalls.__new__(StreamCalls)
    calls.driver, calls.stream = SimpleNamespace(cuLaunchKernel=launched), 7
    x, y = (np.zeros(n, dtype).view(Array) for n, dtype in ((5, np.float32), (9, np.int64)))
    with rare_collections():  # what was there before is not looked through
        go = calls.launch("code", 3, 64, 512, [x, y])
        for _ in range(2):
            collect()
            go()
    flat = (0, 0, 5, 4, x.ctypes.data, 5, 4, 0, 0, 9, 8, y.ctypes.data, 9, 8)
    assert seen == [flat] * 2
    calls.driver = SimpleNamespace(cuLaunchKernel=lambda *_: (Failed.CUDA_ERROR_LAUNCH_FAILED,))
    with pytest.raises(RuntimeError, match="CUDA_ERROR_LAUNCH_FAILED"):
        go()


def test_what_lies_on_the_device_never_comes_to_python() -> None:
    c, cuda = compiled("zoo:small_lstm"), Cuda()
    on, inputs = c.on_gpu(lambda: OnStandIn(cuda)), c.random_inputs()
    want = on.run(inputs)
    pinned, there = cuda.pinned, dict[str, Any]()
    for name, x in inputs.items():
        told = {"typestr": x.dtype.str, "shape": x.shape, "data": (x.ctypes.data, False)}
        there[name] = SimpleNamespace(__cuda_array_interface__=told)
    agree(on.run(there), want)
    assert cuda.pinned == pinned
    there[name].__cuda_array_interface__["strides"] = inputs[name].strides[::-1]
    program = on.program(c.named(inputs))
    with pytest.raises(BadOption, match="is not contiguous"):
        on.run(there)
    assert on.program(c.named(inputs)) is program  # the device has lost nothing


def on_device(x: np.ndarray, read_only: bool = False) -> Any:
    told = {"typestr": x.dtype.str, "shape": x.shape, "data": (x.ctypes.data, read_only)}
    return SimpleNamespace(__cuda_array_interface__=told)


@pytest.mark.exhaustive
def test_outputs_go_where_they_are_asked_for() -> None:
    """On the device without a copy to Python, or to arrays of this machine."""
    c, cuda = compiled("zoo:small_lstm"), Cuda()
    on, inputs = c.on_gpu(lambda: OnStandIn(cuda)), c.random_inputs()
    want = on.run(inputs)
    lie = {name: np.zeros_like(y) for name, y in want.items()}
    agree(on.run(inputs, out=lie), want)
    agree(lie, want)
    pinned, there = cuda.pinned, {name: Made(x, CUDA) for name, x in inputs.items()}
    lie = {name: np.zeros_like(y) for name, y in want.items()}
    places = {name: on_device(y) for name, y in lie.items()}
    found = on.run(there, out=places)
    assert all(found[name] is place for name, place in places.items())
    agree(lie, want)
    assert cuda.pinned == pinned
    first, name = next(iter(want)), next(iter(inputs))
    for place, sentence in (
        (on_device(lie[first], read_only=True), "is read-only"),
        (Made(lie[first], CUDA), "is read-only"),
        (on_device(lie[first].T), f"the output '{first}' must have shape"),
        (on_device(lie[first].astype("i4")), f"the output '{first}' must be float32"),
    ):
        with pytest.raises(IronworksError, match=sentence):
            on.run(there, out={first: place})
    with pytest.raises(ShapeError, match="there is no output 'z'"):
        on.run(there, out={"z": lie[first]})
    with pytest.raises(BadOption, match="lies on GPU 3, and a device is GPU 0"):
        on.run({**there, name: Made(inputs[name], CUDA, 3)})
    agree(on.run(there), want)  # the device has lost nothing


def test_what_is_missing_is_one_sentence() -> None:
    with pytest.raises(DeviceFault, match="there is no GPU here"):
        cuda = Cuda()
        cuda.there = False
        Gpu(cuda)
    with pytest.raises(DeviceFault, match=r"capability 7\.0, and CUDA 13 makes code from 7"):
        Gpu(Cuda(capability=(7, 0)))
    program = compiled("zoo:small_lstm").device_program(units=UNITS)
    with pytest.raises(DeviceFault, match="a device has too little memory"):
        ProgramRun(program, OnStandIn(Cuda(room=100)))
    with pytest.raises(BadOption, match="3 blocks wait for each other and a device holds 2"):
        ProgramRun(program, OnStandIn(Cuda(places=2)))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("words", "sentence", "contexts"),
    [
        ("CUDA_ERROR_ILLEGAL_ADDRESS", "a device ended a kernel that left its memory", 2),
        ("CUDA_ERROR_LAUNCH_FAILED", "a device ended a kernel that faulted", 2),
        ("CUDA_ERROR_LAUNCH_TIMEOUT", "a device ended a kernel that took too long", 2),
        ("CUDA_ERROR_INSUFFICIENT_DRIVER", "older than this CUDA", 1),
    ],
)
def test_a_lost_context_is_made_anew(words: str, sentence: str, contexts: int) -> None:
    """And the CPU knows nothing of it."""
    c, cuda = compiled("zoo:small_lstm"), Cuda()
    gpu, program, inputs = OnStandIn(cuda), c.device_program(units=UNITS), c.random_inputs()
    run, cpu = ProgramRun(program, gpu), compiled("zoo:small_lstm", "cpu")
    cuda.fails = words
    with pytest.raises(DeviceFault, match=sentence):
        run.run(inputs)
    want, cuda.fails = cpu.run(inputs), ""
    agree(ProgramRun(program, gpu).run(inputs), want)
    assert cuda.contexts == contexts


def test_a_compilation_goes_on_after_a_fault() -> None:
    c, cuda = compiled("zoo:small_lstm"), Cuda()
    on, inputs = c.on_gpu(lambda: OnStandIn(cuda)), c.random_inputs()
    want = on.run(inputs)
    cuda.fails = "CUDA_ERROR_ILLEGAL_ADDRESS"
    with pytest.raises(DeviceFault, match="left its memory"):
        on.run(inputs)
    cuda.fails = ""
    agree(on.run(inputs), want)
    assert cuda.contexts == 2


def test_what_the_driver_does_not_say_is_no_fault_of_a_device() -> None:
    c, cuda = compiled("zoo:small_lstm"), Cuda()
    run = ProgramRun(c.device_program(units=UNITS), OnStandIn(cuda))
    cuda.fails = "something else"
    with pytest.raises(RuntimeError, match="something else"):
        run.run(c.random_inputs())
