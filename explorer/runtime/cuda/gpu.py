"""A GPU through numba-cuda: one memory, one stream, pinned copies, persistent launches.

What goes wrong there is one sentence each, and the context that it may have cost is made anew with
the next memory; Python and the CPU go on as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from explorer.codegen.cuda.assemble import EXTRA, LEAST_CAPABILITY
from explorer.codegen.cuda.persistent import MOVING, TABLES, ProgramSource
from explorer.codegen.cuda.shared_arrays import STATIC_BYTES
from explorer.errors import DeviceFault
from explorer.runtime.cuda.calls import Calls
from explorer.runtime.cuda.driver import Loaded

CAUSES: tuple[tuple[str, str], ...] = (  # of the driver's words, the first that is found counts
    ("OUT_OF_MEMORY", "has no room for what was asked of it"),
    ("INSUFFICIENT_DRIVER", "has a driver that is older than this CUDA: a newer driver"),
    ("UNSUPPORTED_PTX", "has a driver that is older than this CUDA: a newer driver"),
    ("COOPERATIVE_LAUNCH_TOO_LARGE", "does not hold so many blocks at the same time"),
    ("LAUNCH_TIMEOUT", "ended a kernel that took too long"),
    ("ILLEGAL_ADDRESS", "ended a kernel that left its memory"),
    ("LAUNCH_FAILED", "ended a kernel that faulted"),
)
LOST = ("LAUNCH_TIMEOUT", "ILLEGAL_ADDRESS", "LAUNCH_FAILED")  # after which a context does nothing


def allow_shared(code: Any, shared_bytes: int) -> None:
    """Let a kernel ask for more shared memory than every block may have."""
    driver: Any = import_module("numba.cuda.cudadrv.driver")
    binding: Any = import_module("cuda.bindings.driver")
    asked = binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    function = code._codelibrary.get_cufunc()
    driver.driver.cuKernelSetAttribute(asked, shared_bytes, function.handle, function.device.id)


class Gpu:
    """The current device of numba-cuda; `cuda` stands for its module.

    Raises DeviceFault where there is no device, or one that CUDA makes no code for any more.
    """

    kind = "measured"

    def __init__(self, cuda: Any = None) -> None:
        try:
            self.cuda = import_module("numba.cuda") if cuda is None else cuda
        except ImportError as missing:
            what = "a GPU is used through numba-cuda, which is not installed"
            raise DeviceFault(what, try_=f"pip install '{EXTRA}'") from missing
        if not self.cuda.is_available():
            raise DeviceFault("there is no GPU here, or no driver of one", try_='target="cuda-sim"')
        device = self.cuda.get_current_device()
        self.name = str(getattr(device.name, "decode", lambda: device.name)())
        major, minor = device.compute_capability
        if 10 * major + minor < LEAST_CAPABILITY:
            raise DeviceFault(
                f"{self.name} has compute capability {major}.{minor}, and CUDA 13 makes code from "
                f"{LEAST_CAPABILITY / 10} on",
                where=self.name,
            )
        self.stream = self.cuda.stream()
        self.calls: Any = None  # and memory with it, when there is room
        self.memory: Any = None
        self.begin = 0
        self.lost = False
        self._kernels: dict[str, Any] = {}
        self._pinned: dict[tuple[int, int], Any] = {}

    def resident(self, source: ProgramSource) -> int:
        """As the driver says of the code that it has."""
        self._renew()
        with self.told():
            kernel = self._kernel(source)
            (code,) = kernel.overloads.values()
            return int(code.max_cooperative_grid_blocks(source.threads, source.shared_bytes))

    def make_room(self, count: int) -> None:
        """In the place of what there was; in a new context, where the old one is lost."""
        self.memory = None
        self._pinned.clear()
        self._renew()
        with self.told():
            self.stream = self.cuda.stream()
            self.calls = self.on(self.stream)
            self.memory = self.cuda.device_array(-(-count // 8) * 8, np.uint8)
            self.begin = address(self.memory)

    def _renew(self) -> None:
        """A new context, where the old one is lost."""
        if self.lost:
            self.cuda.close()
            self._kernels.clear()
            self.lost = False

    def on(self, stream: Any) -> Calls:
        """What is asked for in the order of a stream."""
        return Calls(int(stream))

    def write(self, at: int, array: np.ndarray, again: bool = False) -> None:
        """Through pinned memory, in the order of the stream; what lies on the device already, with
        `__cuda_array_interface__`, from there.
        """
        with self.told():
            if hasattr(array, "__cuda_array_interface__"):
                given = self.cuda.as_cuda_array(array)
                if not given.is_c_contiguous():
                    raise DeviceFault(f"an input on {self.name} is not contiguous", where=self.name)
                self.calls.across(self.begin + at, address(given), given.nbytes)
                return
            bytes_ = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            if bytes_.size:
                staged = self._staged(at, bytes_.size, again)
                staged[:] = bytes_
                self.calls.up(self.begin + at, staged)
                if not again:
                    self.calls.wait()  # then nobody needs it

    def read(self, at: int, array: np.ndarray) -> None:
        """When all that was asked for is done."""
        bytes_ = array.reshape(-1).view(np.uint8)
        if not bytes_.size:
            return
        with self.told():
            staged = self._staged(at, bytes_.size, True)
            self.calls.down(staged, self.begin + at)
            self.calls.wait()
            bytes_[:] = staged

    def _staged(self, at: int, count: int, kept: bool) -> Any:
        """Pinned memory for a place, which is kept if it will be needed again."""
        staged = self._pinned.get((at, count))
        if staged is None:
            staged = self.cuda.pinned_array(count, np.uint8)
        if kept:
            self._pinned[at, count] = staged
        return staged

    def load(self, source: ProgramSource, units: int, arrays: Mapping[str, np.ndarray]) -> Loaded:
        """All tables are copied, once."""
        with self.told():
            return _OnGpu(self, source, units, arrays)

    def start(self, source: ProgramSource, units: int, arrays: Sequence[Any]) -> Callable[[], None]:
        """What launches its kernel on arrays of the device, each time."""
        (code,) = self._kernel(source).overloads.values()
        return self.calls.launch(code, units, source.threads, source.shared_bytes, arrays)

    def _kernel(self, source: ProgramSource) -> Any:
        """The kernel of a source, compiled once for its arrays."""
        if source.source not in self._kernels:
            types, names = import_module("numba.types"), dict[str, Any](__name__="device_program")
            exec(source.source, names)
            bounds = source.threads  # without it, code may need more registers than a block has
            kernel = self.cuda.jit(names["program"].py_func, launch_bounds=bounds)
            words = [types.int64[::1] for _ in TABLES]
            numbers = ("boolean" if d == "bool" else d for d in source.memories)
            code = kernel.compile((*words, *(getattr(types, n)[::1] for n in numbers)))
            if source.shared_bytes > STATIC_BYTES:
                allow_shared(code, source.shared_bytes)
            self._kernels[source.source] = kernel
        return self._kernels[source.source]

    @contextmanager
    def told(self) -> Iterator[None]:
        """What the driver says, in a sentence."""
        try:
            self.cuda.current_context()  # that of this thread
            yield
        except DeviceFault:
            raise
        except Exception as problem:
            words = str(problem)
            cause = next((c for c in CAUSES if c[0] in words), None)
            if cause is None:
                raise
            self.lost = self.lost or cause[0] in LOST
            raise DeviceFault(f"{self.name} {cause[1]}", where=self.name, found=words) from problem


class _OnGpu:
    """A launch whose tables lie on a GPU; those that a run changes begin anew by one copy there."""

    def __init__(
        self, gpu: Gpu, source: ProgramSource, units: int, arrays: Mapping[str, np.ndarray]
    ) -> None:
        self.gpu, self.arrays = gpu, arrays
        one = np.concatenate([arrays[name] for name in MOVING])
        self.fresh = gpu.cuda.to_device(one, stream=gpu.stream)
        self.moving = gpu.cuda.to_device(one, stream=gpu.stream)
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
        """One copy and one kernel."""
        with self.gpu.told():
            self.gpu.calls.across(address(self.moving), address(self.fresh), self.fresh.nbytes)
            self.start()

    def tell(self, *names: str) -> None:
        """Each by a copy."""
        with self.gpu.told():
            for name in names:
                self.gpu.calls.down(self.arrays[name], address(self.tables[name]))
            self.gpu.calls.wait()


def address(array: Any) -> int:
    """Where an array of the device begins."""
    return int(array.device_ctypes_pointer.value)
