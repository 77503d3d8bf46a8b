"""Roller as a pass: every kernel gets its tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import count

from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.decided import Decisions
from explorer.ir.decisions.tiling import Block, BlockDecision, Tiling, TilingDecision
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.canonical import canonical, renamed_tiling
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Binding, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.stage import Stage
from explorer.passes.pipeline.policy_call import PolicyCall
from explorer.passes.pipeline.progress import report_progress
from explorer.passes.pipeline.ranges import Integer, PolicyOf, Rows, check, option
from explorer.roller.blocks.cached_grids import alone_us
from explorer.roller.blocks.candidates import block_candidates, weigh_block
from explorer.roller.blocks.gpu_candidates import has_cold_constants
from explorer.roller.cached_tilings import best_tiling, best_tilings
from explorer.roller.least_work_tiling import least_work_tiling
from explorer.roller.named_policies import DEFAULT, POLICIES, Policy
from explorer.roller.policy import refined, weighed_inside
from explorer.roller.tiles.cuts import Cut
from explorer.roller.tiles.order import REFUSED_CANDIDATES
from explorer.roller.tiles.weigh import label_of, refusal, weigh
from explorer.roller.validate_policy import of_blocks, of_tilings, validate_candidates
from explorer.roller.well_formed import in_numbers

MOST_TILINGS = 10_000  # of a request; chosen
MOST_MEASURED_TILINGS = 100  # of a request; chosen


@dataclass(frozen=True, slots=True)
class Options:
    """Options of Roller.

    `policy` is a name of `POLICIES`, or a function. `pinned` sets tilings by hand: ((binding,
    tiling), ...). On the data sheet of a GPU `blocks` sets the thread blocks that the wall else
    chooses, in the names of the kernel's axes. `measure`: so many of the best candidates by the
    model are compiled and timed on this machine, and the fastest is taken; 0: none. For a GPU both
    named policies construct thread blocks, of which all that a wall may take are kept.
    """

    policy: str | Policy = option(DEFAULT, PolicyOf("roller", POLICIES), "tiling policy")
    top_k: int = option(10, Integer(1, MOST_TILINGS), "number of tilings to weigh")
    pinned: tuple[tuple[str, Tiling], ...] = option(
        (), Rows((str, Tiling), "pairs of a binding and a Tiling"), "tilings set by hand"
    )
    blocks: tuple[tuple[str, Block], ...] = option(
        (), Rows((str, Block), "pairs of a binding and a Block"), "thread blocks set by hand"
    )
    measure: int = option(
        0, Integer(0, MOST_MEASURED_TILINGS), "number of best tilings to time; 0: none"
    )

    def __post_init__(self) -> None:
        """Check the options; BadOption if one is invalid."""
        check("roller", self)


@dataclass(frozen=True, slots=True)
class Roll:
    """Roller for one device, as a pass."""

    device: Device
    options: Options = Options()

    def __call__(self, program: Program) -> Program:
        """Tile all kernels.

        After: every kernel is in normal form and has a tiling, or on a GPU a thread block.
        """
        return roll(program, self.device, self.options)


def roll(program: Program, device: Device, options: Options = Options()) -> Program:
    """Tile all kernels of a program; the losing candidates stand in its decisions.

    After: every kernel is in normal form and has a tiling, on a GPU a thread block if it has a tile
    program for one.

    Raises:
        BadOption: a pinned tiling, or a thread block, breaks a rule.
    """
    decide: _Tilings | _ThreadBlocks = (
        _ThreadBlocks(program, device, options)
        if device.kind == "gpu"
        else _Tilings(program, device, options)
    )

    begun, kernels = count(), len(program.kernel_calls)

    def rolled(binding: Binding) -> Binding:
        call = binding.expr
        if not isinstance(call, KernelCall):
            return binding
        report_progress(f"tile (Roller): {binding.name}", next(begun), kernels)
        return replace(
            binding, expr=decide(replace(call, kernel=normalise(call.kernel)), binding.name)
        )

    functions = tuple(replace(f, body=tuple(rolled(b) for b in f.body)) for f in program.functions)
    left = decide.decisions()
    return replace(program, functions=functions, decisions=left, stage=Stage.ROLLED)


class _Tilings:
    """The tilings of a program's kernels; equal kernels share them."""

    def __init__(self, program: Program, device: Device, options: Options) -> None:
        self.program, self.device, self.options = program, device, options
        self.pinned, self.blocks = dict(options.pinned), dict(options.blocks)
        self.planned = _planned(program)
        self.cache: dict[tuple[Kernel, Cut], tuple[Candidate[Tiling], ...]] = {}  # canonical names
        self.decided: list[TilingDecision] = []

    def __call__(self, call: KernelCall, name: str) -> KernelCall:
        """Return a call in normal form with its tiling."""
        device, kernel = self.device, call.kernel
        if name in self.blocks:
            what = f"{name} has no thread blocks on {device.name}"
            raise BadOption(what, where=name, try_="roller.pinned, or the data sheet of a GPU")
        named, axes = canonical(kernel)
        cut = tuple((axes[a], n) for a, n in self.planned.get(name, ()) if a in axes)
        if (named, cut) not in self.cache:
            env = self.program.env
            self.cache[named, cut] = _candidates_of(named, name, device, env, self.options, cut)
        ranked_by_model = _under_names(
            self.cache[named, cut], {new: old for old, new in axes.items()}
        )
        by_hand = name in self.pinned
        chosen = (
            _pinned(kernel, name, self.pinned[name], device, self.program)
            if by_hand
            else ranked_by_model[0]
        )
        ranked = (
            (chosen, *(c for c in ranked_by_model if c.value != chosen.value))
            if by_hand
            else ranked_by_model
        )
        other = None if by_hand else least_work_tiling(ranked_by_model, chosen, device)
        self.decided.append(TilingDecision(name, chosen.value, ranked, by_hand, efficient=other))
        return replace(call, tiling=chosen.value, efficient=other, block=None)

    def decisions(self) -> Decisions:
        """Return the program's decisions with the tilings."""
        return replace(self.program.decisions, tilings=tuple(self.decided), blocks=())


class _ThreadBlocks:
    """The thread blocks of a program's kernels under the hints."""

    def __init__(self, program: Program, device: Device, options: Options) -> None:
        self.program, self.device, self.options = program, device, options
        self.pinned, self.blocks = dict(options.pinned), dict(options.blocks)
        self.cold = has_cold_constants(program, device)
        self.decided: list[BlockDecision] = []

    def __call__(self, call: KernelCall, name: str) -> KernelCall:
        """Return a call in normal form with its thread block, if it has a tile program for one."""
        device, kernel, sizes = self.device, call.kernel, self.program.env.hints
        if name in self.pinned:
            what = f"{name} runs as thread blocks on {device.name}, and has no tiling"
            raise BadOption(what, where=name, try_="roller.blocks, or a processor")
        candidates, weighed = self._candidates(kernel, name)
        by_hand = self.blocks.get(name)
        if by_hand is not None:
            mine = weigh_block(kernel, by_hand, device, sizes, self.cold)
            if mine.refused:
                why = f"the thread block of {name} is not legal: {mine.refused}"
                raise BadOption(why, where=name)
            candidates = (mine, *(c for c in candidates if c.value != mine.value))
        if not candidates:
            return replace(call, tiling=None, efficient=None, block=None)
        chosen = candidates[0].value
        pinned = by_hand is not None
        self.decided.append(BlockDecision(name, chosen, candidates, pinned, weighed and not pinned))
        return replace(call, tiling=None, efficient=None, block=chosen)

    def _candidates(self, kernel: Kernel, name: str) -> tuple[tuple[Candidate[Block], ...], bool]:
        """Return the candidates, and True if they were weighed here.

        Raises:
            BadPolicy: a user's policy breaks a rule.
        """
        env, policy = self.program.env, self.options.policy
        candidates = block_candidates(kernel, self.device, env.hints, self.cold)
        if isinstance(policy, str) or not candidates:
            return candidates, True
        policy_call = PolicyCall("Roller", policy, f"the kernel {name!r}")
        rules = of_blocks(kernel, self.device, env.hints)
        most = self.options.top_k + REFUSED_CANDIDATES
        ask = partial(policy, kernel, self.device, env, env.hints)
        return validate_candidates(policy_call, ask, rules, most), False

    def decisions(self) -> Decisions:
        """Return the program's decisions with the thread blocks."""
        return replace(self.program.decisions, tilings=(), blocks=tuple(self.decided))


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
    policy_call = PolicyCall("Roller", policy, f"the kernel {name!r}")
    most = count + REFUSED_CANDIDATES
    rules = of_tilings(named, device, env, env.hints)
    return validate_candidates(
        policy_call, partial(policy, named, device, env, env.hints), rules, most
    )


@dataclass(frozen=True, slots=True)
class Price:
    """A price function of kernels for Welder's merges: the modelled time of the best tiling.

    On a GPU it is the time of the thread blocks that finish first.
    """

    device: Device
    top_k: int = 10

    def __call__(self, kernel: Kernel, env: ShapeEnv) -> float:
        """Return microseconds on all units under the hints; infinite if no tiling is legal."""
        if self.device.kind == "gpu":
            return alone_us(kernel, self.device, env.hints)
        best = best_tiling(_named(kernel), self.device, env, env.hints, self.top_k)
        return float("inf") if best is None else best.cost_us

    def tiled(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> float:
        """Return microseconds inside of a given tile, legal or not, for a kernel in normal form."""
        weighed = weighed_inside(kernel, cut, self.device, env.hints)
        return min((c.cost_us for c in weighed), default=float("inf"))

    def allows(self, kernel: Kernel, env: ShapeEnv, cut: Cut) -> str:
        """Return why no tiling inside of a given tile is legal, "" if one is."""
        best = next(refined(kernel, cut, self.device, env, env.hints, 1), None)
        return "rows that share cache sets" if best is None else best.refused


@lru_cache(maxsize=1024)
def _named(kernel: Kernel) -> Kernel:
    """Return a kernel in normal form, under canonical names."""
    return canonical(normalise(kernel))[0]


def _under_names(
    candidates: tuple[Candidate[Tiling], ...], names: Mapping[str, str]
) -> tuple[Candidate[Tiling], ...]:
    out = []
    for c in candidates:
        tiling = renamed_tiling(c.value, names)
        out.append(replace(c, value=tiling, label=label_of(tiling)))
    return tuple(out)


def _pinned(
    kernel: Kernel, name: str, tiling: Tiling, device: Device, program: Program
) -> Candidate[Tiling]:
    why = refusal(kernel, tiling, device, program.env, program.env.hints)
    if why:
        raise BadOption(f"the tile of {name} is not legal: {why}", where=name)
    return weigh(kernel, in_numbers(tiling), device, program.env, program.env.hints)
