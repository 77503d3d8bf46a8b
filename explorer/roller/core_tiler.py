"""Tilings of kernel calls for cores: inside of Welder's tiles, else by a policy.

The wall may run the tiling with the least total work instead, where units are scarce.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling, TilingDecision
from explorer.ir.dims import ShapeEnv, Sizes
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, renamed_tiling
from explorer.ir.program import Program
from explorer.ir.tile_rules import as_integer
from explorer.passes.policy_call import PolicyCall
from explorer.roller.cached_tilings import best_tilings
from explorer.roller.policy import refined
from explorer.roller.tile_cuts import Cut
from explorer.roller.tile_order import AS_GOOD_RATIO, REFUSED_CANDIDATES
from explorer.roller.transform import Options
from explorer.roller.weigh_tiles import in_numbers, malformed, refusal, weigh

if TYPE_CHECKING:
    from explorer.roller.validate_policy import Rules


class CoreTiler:
    """Tiler of the calls whose tasks run on one core each; equal kernels share their tilings."""

    def __init__(self, program: Program, device: Device, options: Options) -> None:
        """Prepare the tiles that Welder chose and those set by hand."""
        self.program, self.device, self.options = program, device, options
        self.pinned = dict(options.pinned)
        self.planned = _planned(program)
        self.cache: dict[tuple[Kernel, Cut], tuple[Candidate[Tiling], ...]] = {}  # canonical names
        self.decided: list[TilingDecision] = []

    def __call__(self, call: KernelCall, name: str) -> KernelCall:
        """Return a call in normal form with its tiling."""
        device, kernel = self.device, call.kernel
        by_hand = self.pinned.get(name)
        if by_hand is not None and as_integer(by_hand.threads) and by_hand.is_thread_block:
            what = f"{name} has no thread blocks on {device.name}"
            raise BadOption(what, where=name, try_="a Tiling, or the data sheet of a GPU")
        named, axes = canonical(kernel)
        cut = tuple((axes[a], n) for a, n in self.planned.get(name, ()) if a in axes)
        if (named, cut) not in self.cache:
            env = self.program.env
            self.cache[named, cut] = _candidates_of(named, name, device, env, self.options, cut)
        ranked_by_model = _under_names(
            self.cache[named, cut], {new: old for old, new in axes.items()}
        )
        chosen, ranked = ranked_by_model[0], ranked_by_model
        if by_hand is not None:
            chosen = _pinned(kernel, name, by_hand, device, self.program)
            ranked = (chosen, *(c for c in ranked_by_model if c.value != chosen.value))
        other = None if by_hand else least_work_tiling(ranked_by_model, chosen, device)
        pinned = by_hand is not None
        self.decided.append(TilingDecision(name, chosen.value, ranked, pinned, efficient=other))
        return replace(call, tiling=chosen.value, efficient=other)

    @property
    def decisions(self) -> tuple[TilingDecision, ...]:
        """The decisions so far, in the order of the calls."""
        return tuple(self.decided)


def _planned(program: Program) -> Mapping[str, Cut]:
    """Return the tiles that Welder has chosen, by binding; Roller refines inside of these."""
    graph = program.decisions.tile_graph
    groups = () if graph is None else graph.groups
    return {g.name: g.plan.tile for g in groups if g.plan is not None}


def _candidates_of(
    named: Kernel, name: str, device: Device, env: ShapeEnv, options: Options, cut: Cut
) -> tuple[Candidate[Tiling], ...]:
    """Return the candidates inside of Welder's tile, else those of the policy.

    Welder's tile is used if there is one and a tiling of it is legal.

    Raises:
        BadPolicy: a user's policy breaks a rule.
    """
    policy, count = options.policy, max(options.top_k, options.measure)
    inside = tuple(refined(named, cut, device, env, env.hints, count)) if cut else ()
    if inside and not inside[0].refused:
        return inside
    if isinstance(policy, str):
        return best_tilings(named, device, env, env.hints, count, policy)
    from explorer.roller.validate_policy import validate_candidates  # a user's policy

    policy_call = PolicyCall("Roller", policy, f"the kernel {name!r}")
    most = count + REFUSED_CANDIDATES
    rules = of_tilings(named, device, env, env.hints)
    return validate_candidates(
        policy_call, partial(policy, named, device, env, env.hints), rules, most
    )


def _under_names(
    candidates: tuple[Candidate[Tiling], ...], names: Mapping[str, str]
) -> tuple[Candidate[Tiling], ...]:
    out = []
    for c in candidates:
        tiling = renamed_tiling(c.value, names)
        out.append(replace(c, value=tiling, label=tiling.words))
    return tuple(out)


def _pinned(
    kernel: Kernel, name: str, tiling: Tiling, device: Device, program: Program
) -> Candidate[Tiling]:
    why = refusal(kernel, tiling, device, program.env, program.env.hints)
    if why:
        raise BadOption(f"the tile of {name} is not legal: {why}", where=name)
    return weigh(kernel, in_numbers(tiling), device, program.env, program.env.hints)


def least_work_tiling(
    candidates: Iterable[Candidate[Tiling]], chosen: Candidate[Tiling], device: Device
) -> Tiling | None:
    """Return the legal tiling whose tasks take the least total time, or None.

    It is None if that is the chosen one, is as good as it, or saves all units together less than a
    barrier: that is not worth the code.
    """
    legal = [c for c in candidates if not c.refused]
    best = min(legal, key=work_us, default=chosen)
    saved_us = device.units * (work_us(chosen) - work_us(best))
    worth = work_us(best) * AS_GOOD_RATIO < work_us(chosen) and saved_us > device.barrier_us
    return best.value if worth else None


def work_us(candidate: Candidate[Tiling]) -> float:
    """Return the time of all tasks of a tiling, shared evenly by all units."""
    return candidate.cost_us - dict(candidate.terms).get("load imbalance", 0.0)


def of_tilings(kernel: Kernel, device: Device, env: ShapeEnv, sizes: Sizes) -> Rules:
    """Return the rules for tilings of a processor."""
    from explorer.roller.validate_policy import Rules

    return Rules(
        "tiling",
        Tiling(),
        lambda t: malformed(kernel, t, device),
        lambda t: refusal(kernel, t, device, env, sizes),
        "explorer.roller.weigh_tiles.weigh",
    )
