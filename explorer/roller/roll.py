"""Roller as a pass: every kernel gets its tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.canonical import canonical, renamed_tiling
from explorer.ir.decisions import Candidate, Tiling, TilingDecision
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.normal import normalise
from explorer.ir.program import Binding, Program
from explorer.ir.stage import Stage
from explorer.roller.policies import DEFAULT, POLICIES, Policy
from explorer.roller.policy import REFUSED, label_of, refusal, weigh
from explorer.roller.remembered import best_tiling, best_tilings


@dataclass(frozen=True, slots=True)
class Options:
    """What Roller may be told. `policy` is a name of `POLICIES`, or a function; `pinned` sets
    tilings by hand: ((binding, tiling), ...).
    """

    policy: str | Policy = DEFAULT
    top_k: int = 10
    pinned: tuple[tuple[str, Tiling], ...] = ()

    def __post_init__(self) -> None:
        if self.top_k < 1:
            raise BadOption(f"roller.top_k is 1 or more, found {self.top_k}")
        if isinstance(self.policy, str) and self.policy not in POLICIES:
            known = ", ".join(POLICIES)
            raise BadOption(
                f"Roller has no policy {self.policy!r}", expected=known, found=self.policy
            )


@dataclass(frozen=True, slots=True)
class Roll:
    """Roller for one device, as a pass."""

    device: Device
    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """After: every kernel is in normal form and has a tiling."""
        return roll(program, self.device, self.options)


def roll(program: Program, device: Device, options: Options = Options()) -> Program:
    """After: every kernel is in normal form and has a tiling; its losing candidates stand in the
    decisions.

    Raises BadOption where a pinned tiling breaks a rule.
    """
    pinned = dict(options.pinned)
    known: dict[Kernel, tuple[Candidate, ...]] = {}  # by the kernel under canonical names
    decisions: list[TilingDecision] = []

    def rolled(binding: Binding) -> Binding:
        call = binding.expr
        if not isinstance(call, KernelCall):
            return binding
        kernel = normalise(call.kernel)
        name = binding.var.name
        named, axes = canonical(kernel)
        if named not in known:
            known[named] = _found(named, device, program.env, options)
        found = _under_names(known[named], {new: old for old, new in axes.items()})
        chosen = (
            _pinned(kernel, name, pinned[name], device, program) if name in pinned else found[0]
        )
        assert isinstance(chosen.value, Tiling)
        ranked = (
            found
            if name not in pinned
            else (chosen, *(c for c in found if c.value != chosen.value))
        )
        decisions.append(TilingDecision(name, chosen.value, ranked, name in pinned))
        return replace(binding, expr=replace(call, kernel=kernel, tiling=chosen.value))

    functions = tuple(replace(f, body=tuple(rolled(b) for b in f.body)) for f in program.functions)
    left = replace(program.decisions, tilings=tuple(decisions))
    return replace(program, functions=functions, decisions=left, stage=Stage.ROLLED)


def _found(named: Kernel, device: Device, env: ShapeEnv, options: Options) -> tuple[Candidate, ...]:
    policy = options.policy
    if isinstance(policy, str):
        return best_tilings(named, device, env, env.hints, options.top_k, policy)
    return tuple(islice(policy(named, device, env, env.hints), options.top_k + REFUSED))


@dataclass(frozen=True, slots=True)
class Price:
    """The modelled time of a kernel at its best tiling: what Welder weighs merges by."""

    device: Device
    top_k: int = 10

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float:
        """Microseconds on all units under the hints; infinite where no tiling is legal."""
        named, _ = canonical(normalise(kernel))
        found = best_tiling(named, self.device, env, env.hints, self.top_k)
        return float("inf") if found is None else found.cost_us


def _under_names(found: tuple[Candidate, ...], names: Mapping[str, str]) -> tuple[Candidate, ...]:
    out = []
    for c in found:
        assert isinstance(c.value, Tiling)
        tiling = renamed_tiling(c.value, names)
        out.append(replace(c, value=tiling, label=label_of(tiling)))
    return tuple(out)


def _pinned(
    kernel: Kernel, name: str, tiling: Tiling, device: Device, program: Program
) -> Candidate:
    axes = {a.name for c in kernel.computes if c.out == kernel.output for a in c.axes}
    unknown = [a for a, _ in tiling.tile if a not in axes]
    if unknown:
        raise BadOption(
            f"{name} has no axis {unknown[0]} to tile: it has {', '.join(sorted(axes))}", where=name
        )
    why = refusal(kernel, tiling, device, program.env, program.env.hints)
    if why:
        raise BadOption(f"the tile of {name} is not legal: {why}", where=name)
    return weigh(kernel, tiling, device, program.env, program.env.hints)
