"""The target protocol: every question that the systems ask about a device's execution model.

A device is data (levels, units, limits); its target is the code that knows how tasks run there:
which memories hold their tiles, which tilings are legal and what they cost, how a tile program is
rewritten and printed, and whether it runs here. No system compares the kind of a device: it asks
`target_of(device)`. Targets are loaded by name when a device first needs them, so that a program
for a CPU loads nothing of CUDA, and so that others can bring their own with `register`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, Protocol

from explorer.devices.listing import Listing, Listings
from explorer.devices.model import Device, LevelMemory
from explorer.errors import BadOption, BadTarget, CheckFailed, NoSuchDevice
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Chosen, Tiling
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.ir.program import Program
from explorer.ir.tile_program import TileProgram
from explorer.plain_text import counted
from explorer.printed import Printed
from explorer.process.user_code import Registry, shown, with_article

if TYPE_CHECKING:  # of the systems above, which ask
    from explorer.devices.listing import Listings
    from explorer.roller.construct.expression import Expression
    from explorer.roller.construct.levels import LevelRules
    from explorer.roller.transform import CallTiler, Options
    from explorer.runtime.planning.sheet_times import SheetTimes

NO_CODE = Listings(Listing(""), Listing(""), "")
Steps = tuple[tuple[str, TileProgram], ...]  # the program after each rewrite, by its name


class KernelText(Protocol):
    """A kernel call as a target prints it."""

    @property
    def name(self) -> str:
        """The name of the call."""

    @property
    def origins(self) -> frozenset[str]:
        """The source operators that it computes."""

    @property
    def source(self) -> str:
        """The printed source."""

    @property
    def refused(self) -> str:
        """Why it has none, else ""."""

    @property
    def listings(self) -> Listings:
        """The assembled code line by line."""


@dataclass(frozen=True, slots=True, repr=False)
class PrintedKernel(Printed):
    """A kernel call as its target prints it, or the reason why it does not (`refused`)."""

    name: str
    origins: frozenset[str]
    device: Device
    source: str
    list_code: Callable[[], Listings] | None = None
    refused: str = ""

    def __str__(self) -> str:
        """Return one line: the number of lines, or why there are none."""
        lines = counted(self._length, "line")
        return f"{self.name} on {self.device.name}: {self.refused or lines}"

    @property
    def listings(self) -> Listings:
        """The assembled code line by line; empty if nothing was printed.

        Raises:
            BadTarget: A line of it comes from a line that the source does not have.
        """
        listings = NO_CODE if self.list_code is None else self.list_code()
        most, length = max((0, *listings.llvm.lines, *listings.assembly.lines)), self._length
        if most > length:
            raise BadTarget(
                f"the listings of {self.name!r} come from line {most} of its source, which has "
                f"{counted(length, 'line')}",
                where=self.name,
                expected=f"lines from 1 to {length}, or 0 for none",
                actual=most,
            )
        return listings

    @property
    def _length(self) -> int:
        return len(self.source.splitlines())


class Target(ABC):
    """Answers about the execution model of devices; a subclass for each.

    `uses_thread_blocks`: a task is a block of threads, else one core computes it.
    `prints_cuda`: kernels are Numba CUDA, so that a GPU with a compute capability runs the program.
    `refines_tiles`: Roller refines inside of the tile that Welder chose for a group.
    `is_emitted`: compiling generates machine code; else it ends with a plan.
    `has_resident_workers`: workers stay between launches, so each keeps its own caches and tasks.
    `launches_each_call`: a kernel call begins after the one before, whatever Rammer's policy is.
    `packs_weights`, `copies_symbolic_steps`, `stacks_rows_in_place`, `weighs_splits` select steps
    of the pipeline: constant operands are packed into panels; steps of symbolic extent are copied
    out of kernels; rows of a loop are stacked over those that it reads; splits of reductions are
    weighed by their modelled time, not by the number of units alone.
    `align_bytes`: the alignment of tensors in the memory that holds a task's tile.
    """

    uses_thread_blocks: ClassVar[bool] = False
    prints_cuda: ClassVar[bool] = False
    refines_tiles: ClassVar[bool] = True
    is_emitted: ClassVar[bool] = True
    has_resident_workers: ClassVar[bool] = True
    launches_each_call: ClassVar[bool] = False
    packs_weights: ClassVar[bool] = True
    copies_symbolic_steps: ClassVar[bool] = True
    stacks_rows_in_place: ClassVar[bool] = True
    weighs_splits: ClassVar[bool] = False
    align_bytes: ClassVar[int] = 64

    # Welder: the memories of a tile

    @abstractmethod
    def memories(self, device: Device) -> tuple[LevelMemory, ...]:
        """Return registers, caches or managed memory, and DRAM, nearest first."""

    @abstractmethod
    def tile_levels(self, device: Device) -> range:
        """Return the numbers of the memories that may hold a task's tile, nearest first."""

    @abstractmethod
    def tile_memory(self, device: Device) -> LevelMemory:
        """Return the memory that a task's tile should fit."""

    @abstractmethod
    def most_elements(self, device: Device) -> int | None:
        """Return the most elements of a tensor that a task may compute; None without a limit."""

    @abstractmethod
    def resident(self, device: Device, tile_bytes: int, elements: int) -> int:
        """Return the number of tasks that a unit holds at the same time, at least 1.

        `tile_bytes` are those of a task's tile, `elements` those of its largest tensor.
        """

    # Roller: candidates, legality, price

    @abstractmethod
    def tile_rules(self, device: Device, expression: Expression, streamed: bool) -> LevelRules:
        """Return the rules by which tiles are constructed; `streamed` if they are memory bound.

        Raises:
            BadOption: The data sheet lacks a limit that the rules need.
        """

    @abstractmethod
    def candidates(
        self, kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes, top_k: int
    ) -> Iterator[Candidate[Tiling]]:
        """Yield the tilings of a kernel in normal form, best first, then refused ones."""

    @abstractmethod
    def weigh(
        self, kernel: Kernel, tiling: Tiling, program: Program, sizes: Sizes, device: Device
    ) -> Candidate[Tiling]:
        """Return a tiling of a kernel of a program with its modelled time, or its refusal."""

    @abstractmethod
    def call_tiler(self, program: Program, device: Device, options: Options) -> CallTiler:
        """Return the tiler of a program's kernel calls, which collects its decisions."""

    @abstractmethod
    def broken_rule(self, call: KernelCall, name: str, env: ShapeEnv, device: Device) -> str:
        """Return the rule that the tiling of a call breaks, with the numbers, else ""."""

    def why_no_tiles(self, kernel: Kernel, device: Device, sizes: Sizes) -> str:
        """Return why a kernel has no tile program on a device under a binding, else ""."""
        return ""

    @abstractmethod
    def price_us(self, kernel: Kernel, device: Device, env: ShapeEnv, top_k: int) -> float:
        """Return the modelled microseconds of a kernel on all units; inf if nothing is legal."""

    # Lowering and code

    @abstractmethod
    def steps(
        self, kernel: Kernel, tiling: Tiling | None, env: ShapeEnv, sizes: Sizes, device: Device
    ) -> Steps:
        """Return the tile program of a kernel after each rewrite; without a tiling, the first's.

        Raises:
            BadOption: The kernel has no tile program on this device.
            CheckFailed: A rewrite broke the program.
        """

    @abstractmethod
    def print(
        self, kernel: Kernel, tiling: Tiling | None, env: ShapeEnv, sizes: Sizes, device: Device
    ) -> str:
        """Return the source of a kernel; errors as those of `steps`."""

    def listings(
        self, kernel: Kernel, tiling: Tiling | None, env: ShapeEnv, sizes: Sizes, device: Device
    ) -> Listings:
        """Return the assembled code of a kernel line by line; errors as those of `steps`.

        Without an assembler it is empty.
        """
        return NO_CODE

    def printed(
        self, program: Program, device: Device, sizes: Sizes, chosen: Chosen
    ) -> tuple[KernelText, ...]:
        """Return every kernel call in order as it is printed, or why it is not.

        `chosen` has the thread blocks of calls that a plan chose, by call.
        """
        return tuple(
            self._printed(b.name, b.origin, b.kernel_call, program, device, sizes)
            for b in program.kernel_calls
        )

    def _printed(
        self,
        name: str,
        origins: frozenset[str],
        call: KernelCall,
        program: Program,
        device: Device,
        sizes: Sizes,
    ) -> PrintedKernel:
        """Return one kernel call as it is printed, or why it is not."""
        arguments = call.kernel, call.tiling, program.env, sizes, device
        try:
            source = self.print(*arguments)
            return PrintedKernel(name, origins, device, source, lambda: self.listings(*arguments))
        except (BadOption, BadTarget, CheckFailed) as problem:
            return PrintedKernel(name, origins, device, "", None, problem.sentence)

    # Planning

    def grid_times(
        self, program: Program, device: Device, chosen: Callable[[Sizes], Chosen] | None = None
    ) -> SheetTimes | None:
        """Return the times of grids of thread blocks; None where tasks are timed one by one."""
        return None


_modules: dict[str, str] = {
    "cpu": "explorer.targets.cpu",
    "gpu": "explorer.targets.cuda",
    "llvm": "explorer.targets.llvm",
    "webgpu": "explorer.targets.wgsl",
}
IN_COMMON = ("abc", "builtins", "typing")  # modules of bases that say nothing about a target
_included: dict[str, Target] = {}  # those of `_modules` that were loaded
_registered = Registry[Target]()


def target_of(device: Device) -> Target:
    """Return the target of a device: the one that its sheet names, else that of its kind.

    Raises:
        NoSuchDevice: No target has the name.
    """
    name = device.target or device.kind
    target = _included.get(name) or _registered.get(name)
    if target is None:
        if name not in _modules:
            raise NoSuchDevice(
                f"{device.name} is compiled by the target {name!r}, and there is none of that name",
                where=device.name,
                expected=", ".join(sorted({*_modules, *_registered})),
                try_="explorer.devices.target.register, before the device is used; "
                "--plugin ./FILE.py on the command line",
            )
        target = _included[name] = import_module(_modules[name]).TARGET
    return target


def register(name: str, target: Target) -> None:
    """Make a target known under a name, which data sheets state as `target`.

    A later one replaces it, as when a notebook's cell is run again, if it is of the same module or
    extends a class of it; earlier compilations keep the target that they were compiled with. Its
    answers are checked wherever it is asked: errors are BadTarget, and name the line.

    Raises:
        BadOption: It is no instance of a `Target`; the name is invalid, that of an included
            target, or that of an unrelated target of another module.
        BadTarget: One of its flags is invalid.
    """
    from explorer.devices.sheet import NAME, NAME_WORDS
    from explorer.devices.user_target import check_flags, guard

    if not isinstance(target, Target):
        raise BadOption(
            f"the target {name!r} is {with_article(type(target).__name__)}, not a Target",
            where=name,
            expected="an instance of a class that implements explorer.devices.target.Target",
        )
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise BadOption(
            f"the name of a target is {NAME_WORDS}, as data sheets state it, found {shown(name)}",
            where="register",
            try_='register("dsp", Dsp())',
        )
    if name in _modules:
        raise BadOption(
            f"the target {name!r} comes with Ironworks: give yours another name",
            where=name,
            try_=f'register("my-{name}", ...), and target = "my-{name}" in the data sheet',
        )
    before = _registered.get(name, target)
    if not _replaces(target, before):
        raise BadOption(
            f"the module {_home(before)} has registered a target {name!r} already",
            where=name,
            try_=f"another name, or explorer.devices.target.forget({name!r})",
        )
    check_flags(target)
    guard(target)
    _registered[name] = target


def _replaces(target: Target, before: Target) -> bool:
    """Return True if a target is another version of one: of its module, or of a class of it."""
    bases = set(type(target).__mro__) & set(type(before).__mro__)
    common = {c for c in bases if c.__module__.partition(".")[0] not in ("explorer", *IN_COMMON)}
    return bool(common) or _home(target) == _home(before)


def _home(target: Target) -> str:
    """Return the module of a target's class; `type` in place of a class statement states `abc`."""
    return next(c.__module__ for c in type(target).__mro__ if c.__module__ != "abc")


def forget(name: str) -> None:
    """Remove a registered target; raise BadOption if there is none of that name."""
    if name not in _registered:
        raise BadOption(
            f"no target of your own is named {shown(name)}",
            where=name,
            expected=", ".join(_registered) or "none",
        )
    del _registered[name]


def own_target(device: Device) -> Target | None:
    """Return the target of a device if a user registered it; None for those that are included.

    Its code belongs to the key of all that it decides.
    """
    target_of(device)
    return _registered.get(device.target or device.kind)
