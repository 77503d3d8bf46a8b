"""The way of each loop, branch and recursion: what each would take is predicted, and the least is
taken.

Ways of one loop are compared by a trip, those of a recursion by a call, at the sizes that tiles are
chosen for. What stands inside of a loop or a recursion in the program is in the program too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.errors import ShapeError
from explorer.grinder import (
    BranchTask,
    LoopTask,
    RecursionTask,
    UTask,
    Ways,
    on_host,
    task_tree,
    ways_of,
)
from explorer.grinder import Options as GrinderOptions
from explorer.grinder.unroll import operators_of, refusal
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.control import COSTS_ARE_OF, ControlDecision, ControlWay
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes
from explorer.ir.stage import Stage
from explorer.rammer import Options as RammerOptions
from explorer.runtime.control.costs import Control, Supposed, Time, Tree
from explorer.runtime.control.way_times import Constants, Crossing, WayTime
from explorer.runtime.planning.runs.task_times import TaskTimes
from explorer.runtime.planning.units.recursion_ways import UNCOUNTED_TRIPS

HOST, DEVICE = ControlWay("host"), ControlWay("device")
FROM_PYTHON = ("host", "eager")
MOST_TIME_SHARE = 0.97  # of the time of single trips: more is not worth the longer program; chosen
MOST_OPERATORS = 1024  # of a turn that is weighed: a bound on search time, chosen
Weighed = Candidate[ControlWay]
KINDS = {LoopTask: "loop", BranchTask: "branch", RecursionTask: "call"}


@dataclass(frozen=True, slots=True)
class SelectControlSchedule:
    """After: each loop, branch and recursion has the ways that were weighed for it among the
    decisions, and the tree of uTasks says which it goes and counts the kernels that run.
    """

    device: Device
    options: GrinderOptions = GrinderOptions()

    @property
    def remembered(self) -> bool:
        """Not with a function: it is called again for each plan."""
        return isinstance(self.options.schedule, str)

    def __call__(self, program: Program) -> Program:
        """The program at stage RAMMED."""
        before = {d.binding: d for d in program.decisions.control}
        decided = tuple(d for d in before.values() if d.chosen.level == "both")
        if isinstance(self.options.schedule, str):
            found = decisions(program, self.device, self.options)
            decided += tuple(_with_sides(d, before.get(d.binding)) for d in found)
        decisions_ = replace(program.decisions, control=decided, grinder=self.options)
        tree = task_tree(program, ways_of(decisions_))
        decisions_ = replace(decisions_, tasks=tree)
        return replace(program, stage=Stage.RAMMED, decisions=decisions_)


def _with_sides(decision: ControlDecision, before: ControlDecision | None) -> ControlDecision:
    """A branch whose two sides were weighed against one side before they were tiled."""
    sides = [c for c in before.candidates if c.value.level == "both"] if before else []
    return replace(decision, candidates=(*decision.candidates, *sides))


def decisions(
    program: Program, device: Device, options: GrinderOptions
) -> Iterator[ControlDecision]:
    """A decision for each loop, branch and recursion; none where only a run tells the sizes."""
    try:
        chooser = _chooser(program, device, options, program.env.hints)
        if chooser is not None:
            yield from chooser.decisions()
    except ShapeError:  # a value of the run
        return


def crossings(
    program: Program,
    device: Device,
    options: GrinderOptions,
    sizes: Sizes,
    supposed: Supposed = Supposed(),
) -> tuple[Crossing, ...]:
    """The ways of each loop against its trips, inner loops first; none where only a run tells the
    sizes. All ways that the options let "auto" weigh are there, whichever they ask for.
    """
    try:
        chooser = _chooser(program, device, replace(options, schedule="auto"), sizes, supposed)
        if chooser is None:
            return ()
        for _ in chooser.decisions():
            continue
    except ShapeError:
        return ()
    base, chosen = chooser.base, {d.binding: d.chosen for d in program.decisions.control}
    told = dict(device.sources).get("launch_us", "") or f"of {device.name}"
    source = "measured in runs of this program" if base.profiled else told
    if supposed != Supposed():
        source = "supposed"
    constants = Constants(base.again_us, base.barrier_us, source, device.python)
    return tuple(
        Crossing(
            part.binding,
            ways,
            chosen.get(part.binding),
            base.host.made(part),
            base.symbol(part),
            constants,
            tuple(sorted(part.origin)),
        )
        for part in base.control.values()
        if isinstance(part, LoopTask) and (ways := chooser.loops.pop(part.binding, ()))
    )


def _chooser(
    program: Program,
    device: Device,
    options: GrinderOptions,
    sizes: Sizes,
    supposed: Supposed = Supposed(),
) -> _Chooser | None:
    """What weighs; None for a program without control flow. Raises ShapeError."""
    if not any(b.calls for _, b in program.bindings()):
        return None
    rammer = program.decisions.rammer
    laid = rammer if isinstance(rammer, RammerOptions) else RammerOptions()
    if not isinstance(laid.policy, str):
        laid = replace(laid, policy=RammerOptions().policy)
    times = TaskTimes(program, {}, device, laid.profile, laid.threads or device.units)

    def tree(ways: Ways) -> Tree:
        return Tree(program, device, laid, times, ways, sizes, supposed)

    base = tree(Ways())
    return _Chooser(base, tree, options) if base.control else None


@dataclass(frozen=True, slots=True)
class _Weighed:
    """The ways of one loop, branch or recursion, and the time of a whole entry by the best of all,
    and by the best that stays in the program. `said`: what was taken for granted.
    """

    part: Control
    ways: tuple[Weighed, ...]
    any_way: tuple[ControlWay, Time]
    in_program: tuple[ControlWay, Time] | None
    said: str = ""


class _Chooser:
    def __init__(self, base: Tree, make: Callable[[Ways], Tree], options: GrinderOptions) -> None:
        self.base, self.options = base, options
        self.host = make(Ways(on_host, apart=options.schedule == "eager"))
        loops = [p for p in base.control.values() if isinstance(p, LoopTask)]
        kept = {loop.binding: self.why_not(loop) for loop in loops}
        self.kept = kept
        wanted = self.turns if not all(kept.values()) else ()
        self.unrolled = {turn: make(Ways(turn=turn)) for turn in wanted}
        self.found: dict[str, _Weighed] = {}
        self.loops: dict[str, tuple[WayTime, ...]] = {}

    @property
    def turns(self) -> tuple[int, ...]:
        """How many trips a turn are weighed."""
        most = self.options.unroll
        if self.options.schedule == "unrolled":
            return (most,) if most > 1 else ()
        powers = tuple(1 << n for n in range(1, most.bit_length()) if 1 << n <= most)
        return powers if self.options.schedule == "auto" else ()

    def why_not(self, loop: LoopTask) -> str:
        """Why a loop makes no turns of several trips."""
        if loop.level == "host":
            return loop.reason
        if loop.binding in self.base.framed:
            return "it is in a recursion, whose calls are short"
        states = {c.param: c.result for c in loop.carried}
        return refusal(loop.body, loop.trip, loop.checked, states, self.base.tasks.values)

    def decisions(self) -> Iterator[ControlDecision]:
        for part in self.base.control.values():
            if part.binding not in self.found:
                self.found[part.binding] = self.weighed(part)
        inside = frozenset(self.inside(self.base.tasks.parts, False))
        for binding, weighed in self.found.items():
            way, _ = weighed.any_way
            if binding in inside and weighed.in_program is not None:
                way, _ = weighed.in_program
            first = [w for w in weighed.ways if w.value == way]
            others = sorted((w for w in weighed.ways if w.value != way), key=lambda w: w.cost_us)
            kind = KINDS[type(weighed.part)]
            reason = self.reason(weighed, way, binding in inside)
            yield ControlDecision(binding, kind, way, (*first, *others), reason)
        for name, ways in self.base.weighed_groups():
            said = [f"{1000 * w.cost_us:,.0f} ns {w.label}" for w in ways if not w.refused]
            reason = f"predicted per entry: {', '.join(said)}"
            yield ControlDecision(name, "group", ways[0].value, ways, reason)

    def reason(self, weighed: _Weighed, way: ControlWay, inside: bool) -> str:
        if weighed.in_program is None:
            return weighed.part.reason
        if self.options.schedule != "auto":
            why = self.kept.get(weighed.part.binding, "")
            but = f", and {why}" if why and self.options.schedule == "unrolled" else ""
            return f"grinder.schedule is {self.options.schedule}{but}"
        if way != weighed.any_way[0] and inside:
            return "what it stands in is in the program"
        said = [f"{1000 * w.cost_us:,.0f} ns {w.label}" for w in weighed.ways if not w.refused]
        unit = COSTS_ARE_OF[KINDS[type(weighed.part)]]
        granted = f"; {weighed.said}" if weighed.said else ""
        return f"predicted per {unit}: {', '.join(said)}{granted}"

    def inside(self, parts: Sequence[UTask], in_program: bool) -> Iterator[str]:
        """The bindings of what stands inside of a loop, branch or recursion in the program."""
        for part in parts:
            if isinstance(part, LoopTask | BranchTask | RecursionTask):
                if in_program:
                    yield part.binding
                here = in_program or self.found[part.binding].any_way[0].level != "host"
                if isinstance(part, BranchTask):
                    yield from self.inside((*part.then, *part.orelse), here)
                else:
                    yield from self.inside(part.body, here)

    def weighed(self, part: Control) -> _Weighed:
        match part:
            case LoopTask():
                return self.loop(part)
            case BranchTask():
                return self.branch(part)
            case RecursionTask():
                return self.recursion(part)

    def in_program(self, part: Control) -> Time:
        found = self.found[part.binding]
        return (found.in_program or found.any_way)[1]

    def any_way(self, part: Control) -> Time:
        return self.found[part.binding].any_way[1]

    def way_times(self, loop: LoopTask) -> tuple[WayTime, ...]:
        """A loop's ways: from Python first, then single trips in the program, then turns."""
        (hosted,) = self.host.loops(loop.binding)
        on_host = self.host.trip_on_host(hosted, self.any_way)
        ways = [WayTime("on the host", HOST, Time(), on_host, on_host)]
        if loop.level == "host":
            return (*ways, WayTime("in the program", DEVICE, refused=loop.reason))
        entered, one = self.base.entered(loop), self.base.turn(loop, self.in_program)
        way, said = _of_units(self.base, loop)
        ways.append(WayTime(f"in the program{said}", way, entered, one, one))
        kept = self.kept[loop.binding]
        if kept and self.turns:
            ways.append(WayTime("unrolled", ControlWay("device", self.turns[0]), refused=kept))
        for turn, tree in self.unrolled.items() if not kept else ():
            way, why = ControlWay("device", turn), ""
            size = turn * sum(1 for _ in operators_of(loop.body))
            if self.options.schedule == "auto" and size > MOST_OPERATORS:
                why = f"a turn would be {size:,} kernels, more than {MOST_OPERATORS:,}"
            first, *left = tree.loops(loop.binding)
            own, said = _of_units(tree, first, turn)
            if not why and first.turn < turn:
                why = f"it makes {self.base.host.made(loop)} trips"
            if why:
                ways.append(WayTime(f"unrolled by {turn}", way, refused=why))
                continue
            before, turned = tree.entered(first), tree.turn(first, self.in_program)
            label = f"unrolled by {turn}{said}"
            ways.append(WayTime(label, own, before, turned, one, not left))
        return tuple(ways)

    def loop(self, loop: LoopTask) -> _Weighed:
        """A loop's ways by a trip."""
        trips = self.base.host.made(loop)
        count = UNCOUNTED_TRIPS if trips is None else max(0, trips)
        found = {w.way: w for w in self.way_times(loop)}
        self.loops[loop.binding] = tuple(found.values())
        times = {way: w.each(trips) for way, w in found.items() if not w.refused}
        ways = tuple(
            Candidate(w.label, way, times[way].terms if way in times else (), refused=w.refused)
            for way, w in found.items()
        ) + tuple(_on_other_units(self.base, loop, count))
        on_host = times.pop(HOST)
        if loop.level == "host":
            return _Weighed(loop, ways, (HOST, on_host.times(count)), None)
        best = self.pick(times)
        whole = on_host.times(count)
        least = best, found[best].entry + times[best].times(count)
        if self.options.schedule in FROM_PYTHON:
            return _Weighed(loop, ways, (HOST, whole), least)
        if self.options.schedule == "auto" and on_host.us < times[best].us:
            return _Weighed(loop, ways, (HOST, whole), least)
        return _Weighed(loop, ways, least, least)

    def pick(self, times: Mapping[ControlWay, Time]) -> ControlWay:
        """Of the ways in the program the one to take."""
        single = next(w for w in times if w.turn == 1)
        turned = [w for w in times if w.turn > 1]
        if self.options.schedule == "unrolled":
            return turned[0] if turned else single
        least = min(times, key=lambda w: times[w].us)
        return least if times[least].us < MOST_TIME_SHARE * times[single].us else single

    def branch(self, branch: BranchTask) -> _Weighed:
        """A branch's ways by a decision."""
        hosted = self.host.decided_on_host(self.host.branch(branch.binding), self.any_way)
        ways = [Candidate("on the host", HOST, hosted.terms)]
        if branch.level == "host":
            ways.append(Candidate("in the program", DEVICE, refused=branch.reason))
            return _Weighed(branch, tuple(ways), (HOST, hosted), None)
        decided = self.base.decided(branch, self.in_program)
        way, said = _of_units(self.base, branch)
        ways.append(Candidate(f"in the program{said}", way, decided.terms))
        ways += _on_other_units(self.base, branch)
        least = (way, decided)
        to_host = self.options.schedule in FROM_PYTHON or (
            self.options.schedule == "auto" and hosted.us < decided.us
        )
        return _Weighed(branch, tuple(ways), (HOST, hosted) if to_host else least, least)

    def recursion(self, recursion: RecursionTask) -> _Weighed:
        """A recursion's ways by a call; what is in a call is in the program with it."""
        calls, said = self.base.calls(recursion)
        called = self.base.called(recursion, self.in_program)
        hosted = self.base.called_on_host(recursion, self.in_program)
        in_program = self.base.units_of(recursion)
        ways = (
            Candidate("on the host", HOST, hosted.terms),
            *(in_program or (Candidate("in the program", DEVICE, called.terms),)),
        )
        least = ways[1].value, called.times(calls)
        if self.options.schedule in FROM_PYTHON:
            return _Weighed(recursion, ways, (HOST, hosted.times(calls)), least, said)
        return _Weighed(recursion, ways, least, least, said)


def _of_units(tree: Tree, part: Control, turn: int = 1) -> tuple[ControlWay, str]:
    """The way in the program that a tree has of a loop or branch, and what its label ends with."""
    calls = tree.units_way(part)
    return ControlWay("device", turn, calls), ", one unit" if calls else ""


def _on_other_units(tree: Tree, part: Control, trips: int = 1) -> Iterator[Weighed]:
    for way in tree.other_units(part, trips):
        found = ControlWay("device", calls=way.value)
        yield Candidate(f"in the program, {way.label}", found, way.terms, way.refused)
