"""Roller as a pass: every kernel gets its tiles. Price of a kernel, and check of all tilings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Protocol

from explorer.devices.model import Device
from explorer.devices.target import target_of
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.tiling import Tiling, TilingDecision
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Binding, Program
from explorer.ir.stage import Stage
from explorer.passes.ranges import Integer, PolicyOf, Rows, check, option
from explorer.process.cancellation import report_progress
from explorer.roller.named_policies import DEFAULT, POLICIES, Policy

if TYPE_CHECKING:
    from explorer.roller.tile_cuts import Cut

MOST_TILINGS = 10_000  # of a request; chosen
MOST_MEASURED_TILINGS = 100  # of a request; chosen


@dataclass(frozen=True, slots=True)
class Options:
    """Options of Roller.

    `policy` is a name of `POLICIES`, or a function. `pinned` sets tilings by hand: ((binding,
    tiling), ...), in the names of the kernel's axes; on the data sheet of a GPU they are thread
    blocks, which the wall else chooses. `measure`: so many of the best candidates by the model are
    compiled and timed on this machine, and the fastest is taken; 0: none. For a GPU both named
    policies construct thread blocks, of which all that a wall may take are kept.
    """

    policy: str | Policy = option(DEFAULT, PolicyOf("roller", POLICIES), "tiling policy")
    top_k: int = option(10, Integer(1, MOST_TILINGS), "number of tilings to weigh")
    pinned: tuple[tuple[str, Tiling], ...] = option(
        (), Rows((str, Tiling), "pairs of a binding and a Tiling"), "tilings set by hand"
    )
    measure: int = option(
        0, Integer(0, MOST_MEASURED_TILINGS), "number of best tilings to time; 0: none"
    )

    def __post_init__(self) -> None:
        """Check the options; BadOption if one is invalid."""
        check("roller", self)


class CallTiler(Protocol):
    """Tiler of the kernel calls of one program for one device."""

    def __call__(self, call: KernelCall, name: str) -> KernelCall:
        """Return a call in normal form with its tiling."""

    @property
    def decisions(self) -> tuple[TilingDecision, ...]:
        """The decisions so far, in the order of the calls."""


@dataclass(frozen=True, slots=True)
class Roll:
    """Roller for one device, as a pass."""

    device: Device
    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """Tile all kernels.

        After: every kernel is in normal form and has a tiling.
        """
        return roll(program, self.device, self.options)


def roll(program: Program, device: Device, options: Options = Options()) -> Program:
    """Tile all kernels of a program; the losing candidates stand in its decisions.

    After: every kernel is in normal form and has a tiling, on a GPU a thread block if it has a tile
    program for one.

    Raises:
        BadOption: a pinned tiling, or a thread block, breaks a rule.
    """
    tiler = target_of(device).call_tiler(program, device, options)
    begun, kernels = count(), len(program.kernel_calls)

    def rolled(binding: Binding) -> Binding:
        call = binding.expr
        if not isinstance(call, KernelCall):
            return binding
        report_progress(f"tile (Roller): {binding.name}", next(begun), kernels)
        return replace(
            binding, expr=tiler(replace(call, kernel=normalise(call.kernel)), binding.name)
        )

    functions = tuple(replace(f, body=tuple(rolled(b) for b in f.body)) for f in program.functions)
    decisions = replace(program.decisions, tilings=tiler.decisions)
    return replace(program, functions=functions, decisions=decisions, stage=Stage.ROLLED)


@dataclass(frozen=True, slots=True)
class Price:
    """A price function of kernels for Welder's merges: the modelled time of the best tiling.

    On a GPU it is the time of the thread blocks that finish first.
    """

    device: Device
    top_k: int = 10

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float:
        """Return microseconds on all units under the hints; infinite if no tiling is legal."""
        return target_of(self.device).price_us(kernel, self.device, env, self.top_k)

    def tiled(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> float:
        """Return microseconds inside of a given tile, legal or not, for a kernel in normal form."""
        from explorer.roller.policy import weighed_inside  # a program from the cache is not tiled

        weighed = weighed_inside(kernel, cut, self.device, env.hints)
        return min((c.cost_us for c in weighed), default=float("inf"))

    def allows(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> str:
        """Return why no tiling inside of a given tile is legal, "" if one is."""
        from explorer.roller.policy import refined

        best = next(refined(kernel, cut, self.device, env, env.hints, 1), None)
        return "rows that share cache sets" if best is None else best.refused


@dataclass(frozen=True, slots=True)
class LegalTiles:
    """A check of a program's tilings, or on a GPU its thread blocks, for one device."""

    device: Device

    def __call__(self, program: Program) -> str:
        """Return the first rule that a kernel breaks, with its name and the numbers, else ""."""
        target = target_of(self.device)
        for binding in program.kernel_calls:
            call, name = binding.kernel_call, binding.name
            if normalise(call.kernel) != call.kernel:
                return f"the kernel of {name!r} is no longer in normal form"
            why = target.broken_rule(call, name, program.env, self.device)
            if why:
                return why
        return ""
