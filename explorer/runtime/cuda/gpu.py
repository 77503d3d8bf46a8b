"""A GPU through numba-cuda: one memory, one stream, pinned copies, persistent launches.

Each of its errors becomes one sentence. A lost context is created anew with the next memory; Python
and the CPU continue as before.

Each run calls the driver by addresses (`StreamCalls`). Arrays of numba-cuda validate and describe
themselves at each use, which takes longer than the run of a small program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from explorer.codegen.cuda.assemble import EXTRA, LEAST_CAPABILITY
from explorer.codegen.cuda.emitter import STATIC_BYTES
from explorer.codegen.cuda.machine_code import MachineCode, machine_code
from explorer.codegen.cuda.persistent import MOVING, TABLES, ProgramSource
from explorer.errors import BadOption, DeviceFault
from explorer.runtime.cuda.driver import LoadedLaunch
from explorer.runtime.dlpack import BorrowedArray

CAUSES: tuple[tuple[str, str], ...] = (  # words of the driver; the first match counts
    ("OUT_OF_MEMORY", "has too little memory for this request"),
    ("INSUFFICIENT_DRIVER", "has a driver that is older than this CUDA: a newer driver"),
    ("UNSUPPORTED_PTX", "has a driver that is older than this CUDA: a newer driver"),
    ("COOPERATIVE_LAUNCH_TOO_LARGE", "does not hold so many blocks at the same time"),
    ("LAUNCH_TIMEOUT", "ended a kernel that took too long"),
    ("ILLEGAL_ADDRESS", "ended a kernel that left its memory"),
    ("LAUNCH_FAILED", "ended a kernel that faulted"),
)
LOST = ("LAUNCH_TIMEOUT", "ILLEGAL_ADDRESS", "LAUNCH_FAILED")  # the context is unusable afterwards
WORD_BYTES = 8  # of a kernel's argument: addresses and counts


class Gpu:
    """The current device of numba-cuda; `cuda` replaces its module.

    Raises:
        DeviceFault: There is no device, or CUDA no longer generates code for it.
    """

    kind = "measured"

    def __init__(self, cuda: Any = None) -> None:
        """Open the current device."""
        try:
            self.cuda = import_module("numba.cuda") if cuda is None else cuda
        except ImportError as missing:
            what = "a GPU is used through numba-cuda, which is not installed"
            raise DeviceFault(what, try_=f"pip install '{EXTRA}'") from missing
        if not self.cuda.is_available():
            raise DeviceFault(
                "there is no GPU here, or no driver of one",
                try_='explorer.compile(MODEL, target="cuda-sim").run(...), or a run that was '
                "recorded on another machine: ironworks gpu MODEL --recorded FILE",
            )
        device = self.cuda.get_current_device()
        self.name = str(getattr(device.name, "decode", lambda: device.name)())
        major, minor = device.compute_capability
        self.number = int(getattr(device, "id", 0))
        self.capability, self.units = 10 * major + minor, int(device.MULTIPROCESSOR_COUNT)
        if self.capability < LEAST_CAPABILITY:
            raise DeviceFault(
                f"{self.name} has compute capability {major}.{minor}, and CUDA 13 makes code from "
                f"{LEAST_CAPABILITY / 10} on",
                where=self.name,
            )
        self.stream = self.cuda.stream()
        self.calls: Any = None  # created with the memory
        self.memory: Any = None
        self.begin = 0
        self.lost = False
        self._functions: dict[str, Any] = {}
        self._pinned: dict[tuple[int, int], Any] = {}

    def resident(self, source: ProgramSource) -> int:
        """Return the driver's count of resident blocks for the loaded code."""
        self._renew()
        with self.translated_errors():
            context, function = self.cuda.current_context(), self._function(source)
            launch_shape = (function, source.threads, source.shared_bytes)
            return int(context.get_active_blocks_per_multiprocessor(*launch_shape)) * self.units

    def make_room(self, count: int) -> None:
        """Allocate memory in place of the previous one; in a new context if the old one is lost."""
        self.memory = None
        self._pinned.clear()
        self._renew()
        with self.translated_errors():
            self.stream = self.cuda.stream()
            self.calls = self.on(self.stream)
            self.memory = self.cuda.device_array(-(-count // 8) * 8, np.uint8)
            self.begin = address(self.memory)

    def _renew(self) -> None:
        """Create a new context if the old one is lost."""
        if self.lost:
            self.cuda.close()
            self._functions.clear()
            self.lost = False

    def on(self, stream: Any) -> StreamCalls:
        """Return the calls of a stream."""
        return StreamCalls(int(stream))

    def write(self, at: int, array: np.ndarray | BorrowedArray, repeated: bool = False) -> None:
        """Copy through pinned memory, in the order of the stream.

        Arrays that are on the device already are copied there.
        """
        with self.translated_errors():
            if isinstance(array, BorrowedArray):
                on_device = self.on_this_device(array)
                self.calls.copy_on_device(self.begin + at, address(on_device), on_device.nbytes)
                return
            bytes_ = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            if bytes_.size:
                staged = self._staged(at, bytes_.size, repeated)
                staged[:] = bytes_
                self.calls.copy_to_device(self.begin + at, staged)
                if not repeated:
                    self.calls.wait()  # the buffer is free afterwards

    def hand(self, at: int, array: BorrowedArray) -> None:
        """Copy in the order of the stream, and wait: others have streams of their own."""
        with self.translated_errors():
            target = self.on_this_device(array)
            if array.is_read_only:
                what = f"an output on {self.name} is read-only"
                raise BadOption(what, where=self.name)
            self.calls.copy_on_device(address(target), self.begin + at, target.nbytes)
            self.calls.wait()

    def on_this_device(self, array: BorrowedArray) -> Any:
        """Return an array on this device as numba-cuda sees it."""
        if array.number not in (-1, self.number):
            what = f"an array lies on GPU {array.number}, and {self.name} is GPU {self.number}"
            raise BadOption(what, where=self.name)
        if not array.is_contiguous:
            what = f"an array on {self.name} is not contiguous"
            raise BadOption(what, where=self.name, try_="x.contiguous(), which copies it")
        own = array.owner if hasattr(array.owner, "__cuda_array_interface__") else array.on_gpu()
        return self.cuda.as_cuda_array(own)

    def read(self, at: int, array: np.ndarray) -> None:
        """Copy when all previous requests are done."""
        bytes_ = array.reshape(-1).view(np.uint8)
        if not bytes_.size:
            return
        with self.translated_errors():
            staged = self._staged(at, bytes_.size, True)
            self.calls.copy_to_host(staged, self.begin + at)
            self.calls.wait()
            bytes_[:] = staged

    def _staged(self, at: int, count: int, reused: bool) -> Any:
        """Return pinned memory for a place; it is reused later if `reused`."""
        staged = self._pinned.get((at, count))
        if staged is None:
            staged = self.cuda.pinned_array(count, np.uint8)
        if reused:
            self._pinned[at, count] = staged
        return staged

    def load(
        self, source: ProgramSource, units: int, arrays: Mapping[str, np.ndarray]
    ) -> LoadedLaunch:
        """Copy all tables once."""
        with self.translated_errors():
            return _ProgramLaunch(self, source, units, arrays)

    def graph(self, launches: Sequence[LoadedLaunch]) -> Callable[[], None]:
        """Return a CUDA graph of the launches, one driver call a run."""

        def work() -> None:
            for launch in launches:
                launch.run()

        with self.translated_errors():
            launch = self.calls.capture(work)

        def run() -> None:
            with self.translated_errors():
                launch()

        return run

    def start(self, source: ProgramSource, units: int, arrays: Sequence[Any]) -> Callable[[], None]:
        """Return a function that launches a source's kernel on arrays of the device."""
        function = self._function(source).handle
        return self.calls.launch(function, units, source.threads, source.shared_bytes, arrays)

    def _function(self, source: ProgramSource) -> Any:
        """Return the kernel of a source in this context.

        Its code is compiled once on this machine.
        """
        if source.source not in self._functions:
            threads, shared_bytes = source.threads, source.shared_bytes
            key = (source.source, "program", source.arguments, threads, self.capability)
            self._functions[source.source] = self.loaded(machine_code(*key), shared_bytes)
        return self._functions[source.source]

    def loaded(self, code: MachineCode, shared_bytes: int) -> Any:
        """Return code as a function of this context, with `shared_bytes` of shared memory."""
        module = import_module("cuda.core").ObjectCode.from_cubin(code.cubin)
        function = self.cuda.current_context().create_module_image(module).get_function(code.entry)
        if shared_bytes > STATIC_BYTES:  # more than static shared memory
            driver: Any = import_module("numba.cuda.cudadrv.driver")
            binding: Any = import_module("cuda.bindings.driver")
            attribute = binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.driver.cuKernelSetAttribute(
                attribute, shared_bytes, function.handle, function.device.id
            )
        return function

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Translate the driver's errors into sentences."""
        try:
            self.cuda.current_context()  # set for this thread
            yield
        except (BadOption, DeviceFault):
            raise
        except Exception as problem:
            words = str(problem)
            cause = next((c for c in CAUSES if c[0] in words), None)
            if cause is None:
                raise
            self.lost = self.lost or cause[0] in LOST
            raise DeviceFault(f"{self.name} {cause[1]}", where=self.name, actual=words) from problem


class _ProgramLaunch:
    """A launch whose tables are on a GPU; one copy there resets those that a run changes."""

    def __init__(
        self, gpu: Gpu, source: ProgramSource, units: int, arrays: Mapping[str, np.ndarray]
    ) -> None:
        self.gpu, self.arrays = gpu, arrays
        moving_tables = np.concatenate([arrays[name] for name in MOVING])
        self.fresh = gpu.cuda.to_device(moving_tables, stream=gpu.stream)
        self.moving = gpu.cuda.to_device(moving_tables, stream=gpu.stream)
        self.tables = {}
        for name in TABLES:
            if name not in MOVING:
                self.tables[name] = gpu.cuda.to_device(arrays[name], stream=gpu.stream)
        begin = 0
        for name in MOVING:
            end = begin + arrays[name].size
            self.tables[name] = self.moving[begin:end]
            begin = end
        views = [gpu.memory.view(np.dtype(d)) for d in source.memories]
        self.start = gpu.start(source, units, [*(self.tables[n] for n in TABLES), *views])

    def run(self) -> None:
        """Issue one copy and one kernel."""
        with self.gpu.translated_errors():
            self.gpu.calls.copy_on_device(
                address(self.moving), address(self.fresh), self.fresh.nbytes
            )
            self.start()

    def fetch(self, *names: str) -> None:
        """Copy each array to the host."""
        with self.gpu.translated_errors():
            for name in names:
                self.gpu.calls.copy_to_host(self.arrays[name], address(self.tables[name]))
            self.gpu.calls.wait()


class StreamCalls:
    """Driver calls in the order of one stream.

    Raises:
        RuntimeError: A call fails; the message is CUDA's name of the error.
    """

    def __init__(self, stream: int) -> None:
        """Use a stream, given by its handle."""
        self.driver: Any = import_module("cuda.bindings.driver")
        self.stream = stream

    def copy_to_device(self, to: int, array: np.ndarray) -> None:
        """Copy pinned memory to the device."""
        self.check(self.driver.cuMemcpyHtoDAsync(to, array.ctypes.data, array.nbytes, self.stream))

    def copy_to_host(self, array: np.ndarray, at: int) -> None:
        """Copy from the device to this machine; the data are there after `wait`."""
        self.check(self.driver.cuMemcpyDtoHAsync(array.ctypes.data, at, array.nbytes, self.stream))

    def copy_on_device(self, to: int, at: int, count: int) -> None:
        """Copy `count` bytes on the device."""
        self.check(self.driver.cuMemcpyDtoDAsync(to, at, count, self.stream))

    def wait(self) -> None:
        """Wait until all previous calls are done."""
        self.check(self.driver.cuStreamSynchronize(self.stream))

    def launch(
        self, function: Any, blocks: int, threads: int, shared_bytes: int, arrays: Sequence[Any]
    ) -> Callable[[], None]:
        """Return a function that launches a kernel of Numba's on flat arrays of the device."""
        words = [word for array in arrays for word in _words(array)]
        shape = (blocks, 1, 1, threads, 1, 1, shared_bytes)
        return _KernelCall(self, function, shape, words, arrays)

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return the driver calls of `work` as a CUDA graph, which one call replays."""
        d, mode = self.driver, self.driver.CUstreamCaptureMode
        self.check(d.cuStreamBeginCapture(self.stream, mode.CU_STREAM_CAPTURE_MODE_RELAXED))
        try:
            work()
        finally:
            answer = d.cuStreamEndCapture(self.stream)
        self.check(answer)
        graph = d.cuGraphInstantiate(answer[1], 0)
        self.check(graph)
        return lambda: self.check(d.cuGraphLaunch(graph[1], self.stream))

    def check(self, answer: tuple[Any, ...]) -> None:
        """Raise the error that a driver call returned, if any."""
        if int(answer[0]):
            raise RuntimeError(answer[0].name)


class _KernelCall:
    """A kernel with its launch arguments: words, each at an address, and `arrays` kept alive."""

    def __init__(
        self,
        calls: StreamCalls,
        function: Any,
        shape: tuple[int, ...],
        words: Sequence[int],
        arrays: Sequence[Any],
    ) -> None:
        self.calls, self.function, self.shape, self.arrays = calls, function, shape, arrays
        self.words = (ctypes.c_int64 * len(words))(*words)
        first = ctypes.addressof(self.words)
        each = (first + WORD_BYTES * n for n in range(len(words)))
        self.pointers = (ctypes.c_void_p * len(words))(*each)

    def __call__(self) -> None:
        calls, at = self.calls, ctypes.addressof(self.pointers)
        launch = calls.driver.cuLaunchKernel
        calls.check(launch(self.function, *self.shape, calls.stream, at, 0))


def address(array: Any) -> int:
    """Return the address of an array of the device."""
    return int(array.device_ctypes_pointer.value)


def _words(array: Any) -> tuple[int, ...]:
    """Return the kernel arguments of a flat array, as numba-cuda's dispatcher passes them.

    They are no owner and no parent, elements, item bytes, address, extent, and stride in bytes.
    """
    count, each = int(array.size), int(array.dtype.itemsize)
    return (0, 0, count, each, address(array), count, each)
