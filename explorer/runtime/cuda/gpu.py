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
from explorer.codegen.cuda.object.machine_code import MachineCode, machine_code
from explorer.codegen.cuda.persistent import MOVING, TABLES, ProgramSource
from explorer.codegen.cuda.shared_arrays import STATIC_BYTES
from explorer.errors import BadOption, DeviceFault
from explorer.runtime.cuda.calls import Calls, address
from explorer.runtime.cuda.driver import Loaded
from explorer.runtime.dlpack import BorrowedArray

CAUSES: tuple[tuple[str, str], ...] = (  # of the driver's words, the first that is found counts
    ("OUT_OF_MEMORY", "has too little memory for what was asked of it"),
    ("INSUFFICIENT_DRIVER", "has a driver that is older than this CUDA: a newer driver"),
    ("UNSUPPORTED_PTX", "has a driver that is older than this CUDA: a newer driver"),
    ("COOPERATIVE_LAUNCH_TOO_LARGE", "does not hold so many blocks at the same time"),
    ("LAUNCH_TIMEOUT", "ended a kernel that took too long"),
    ("ILLEGAL_ADDRESS", "ended a kernel that left its memory"),
    ("LAUNCH_FAILED", "ended a kernel that faulted"),
)
LOST = ("LAUNCH_TIMEOUT", "ILLEGAL_ADDRESS", "LAUNCH_FAILED")  # after which a context does nothing


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
        self.calls: Any = None  # and memory with it, when there is room
        self.memory: Any = None
        self.begin = 0
        self.lost = False
        self._functions: dict[str, Any] = {}
        self._pinned: dict[tuple[int, int], Any] = {}

    def resident(self, source: ProgramSource) -> int:
        """As the driver says of the code that it has."""
        self._renew()
        with self.told():
            context, function = self.cuda.current_context(), self._function(source)
            asked = (function, source.threads, source.shared_bytes)
            return int(context.get_active_blocks_per_multiprocessor(*asked)) * self.units

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
            self._functions.clear()
            self.lost = False

    def on(self, stream: Any) -> Calls:
        """What is asked for in the order of a stream."""
        return Calls(int(stream))

    def write(self, at: int, array: np.ndarray | BorrowedArray, again: bool = False) -> None:
        """Through pinned memory, in the order of the stream; what lies on the device already, from
        there.
        """
        with self.told():
            if isinstance(array, BorrowedArray):
                given = self._given(array)
                self.calls.across(self.begin + at, address(given), given.nbytes)
                return
            bytes_ = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            if bytes_.size:
                staged = self._staged(at, bytes_.size, again)
                staged[:] = bytes_
                self.calls.up(self.begin + at, staged)
                if not again:
                    self.calls.wait()  # then nobody needs it

    def hand(self, at: int, array: BorrowedArray) -> None:
        """In the order of the stream, which it waits for: others have theirs."""
        with self.told():
            given = self._given(array)
            if array.is_read_only:
                what = f"an output on {self.name} is to be written where one may only read"
                raise BadOption(what, where=self.name)
            self.calls.across(address(given), self.begin + at, given.nbytes)
            self.calls.wait()

    def _given(self, array: BorrowedArray) -> Any:
        """An array that lies on this device, as numba-cuda knows it."""
        if array.number not in (-1, self.number):
            what = f"an array lies on GPU {array.number}, and {self.name} is GPU {self.number}"
            raise BadOption(what, where=self.name)
        if not array.is_contiguous:
            what = f"an array on {self.name} is not contiguous"
            raise BadOption(what, where=self.name, try_="x.contiguous(), which copies it")
        own = array.owner if hasattr(array.owner, "__cuda_array_interface__") else array.on_gpu()
        return self.cuda.as_cuda_array(own)

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

    def graph(self, launches: Sequence[Loaded]) -> Callable[[], None]:
        """As a CUDA graph, of which the driver is asked once a run."""

        def work() -> None:
            for launch in launches:
                launch.run()

        with self.told():
            launch = self.calls.captured(work)

        def run() -> None:
            with self.told():
                launch()

        return run

    def start(self, source: ProgramSource, units: int, arrays: Sequence[Any]) -> Callable[[], None]:
        """What launches its kernel on arrays of the device, each time."""
        function = self._function(source).handle
        return self.calls.launch(function, units, source.threads, source.shared_bytes, arrays)

    def _function(self, source: ProgramSource) -> Any:
        """The kernel of a source in this context; its code is compiled once on this machine."""
        if source.source not in self._functions:
            threads, wanted = source.threads, source.shared_bytes
            asked = (source.source, "program", source.arguments, threads, self.capability)
            self._functions[source.source] = self.loaded(machine_code(*asked), wanted)
        return self._functions[source.source]

    def loaded(self, code: MachineCode, shared_bytes: int) -> Any:
        """Code as a function of this context, which may ask for so much shared memory."""
        made = import_module("cuda.core").ObjectCode.from_cubin(code.cubin)
        function = self.cuda.current_context().create_module_image(made).get_function(code.entry)
        if shared_bytes > STATIC_BYTES:  # more than every block may have
            driver: Any = import_module("numba.cuda.cudadrv.driver")
            binding: Any = import_module("cuda.bindings.driver")
            asked = binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.driver.cuKernelSetAttribute(
                asked, shared_bytes, function.handle, function.device.id
            )
        return function

    @contextmanager
    def told(self) -> Iterator[None]:
        """What the driver says, in a sentence."""
        try:
            self.cuda.current_context()  # that of this thread
            yield
        except (BadOption, DeviceFault):
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
