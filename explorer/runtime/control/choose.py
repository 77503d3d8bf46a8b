"""The way of each loop and branch: what each would take is predicted, and the least is taken.

Ways of one loop are compared by a trip, at the sizes that tiles are chosen for. What stands inside
of a loop in the program is in the program too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.devices.model import Device
from explorer.errors import ShapeError
from explorer.grinder import BranchTask, LoopTask, UTask, Ways, on_host, task_tree, ways_of
from explorer.grinder import Options as GrinderOptions
from explorer.grinder.unroll import operators_of, refusal
from explorer.ir.decisions import Candidate, ControlDecision, ControlWay
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.rammer import Options as RammerOptions
from explorer.runtime.control.costs import Time, Tree
from explorer.runtime.planning.task_times import TaskTimes

HOST, DEVICE = ControlWay("host"), ControlWay("device")
FROM_PYTHON = ("host", "eager")
UNCOUNTED = 8  # trips of a loop that only a run counts, where it stands in another one
LEAST_GAIN = 0.97  # of the time of single trips: less is not worth the longer program
MOST_OPERATORS = 1024  # of a turn that is weighed
Weighed = Candidate[ControlWay]


@dataclass(frozen=True, slots=True)
class ChooseWays:
    """After: each loop and branch has the ways that were weighed for it among the decisions, and
    the tree of uTasks says which it goes and counts the kernels that run.
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
    """A decision for each loop and branch; none where only a run tells the sizes."""
    if not any(b.calls for _, b in program.bindings()):
        return
    rammer = program.decisions.rammer
    laid = rammer if isinstance(rammer, RammerOptions) else RammerOptions()
    if not isinstance(laid.policy, str):
        laid = replace(laid, policy=RammerOptions().policy)
    times = TaskTimes(program, {}, device, laid.profile, laid.threads or device.units)
    sizes = program.env.hints

    def tree(ways: Ways) -> Tree:
        return Tree(program, device, laid, times, ways, sizes)

    try:
        base = tree(Ways())
        if base.control:
            yield from _Chooser(base, tree, options).decisions()
    except ShapeError:  # a value of the run
        return


@dataclass(frozen=True, slots=True)
class _Weighed:
    """The ways of one loop or branch, and the time of a whole entry by the best of all, and by the
    best that stays in the program.
    """

    part: LoopTask | BranchTask
    ways: tuple[Weighed, ...]
    any_way: tuple[ControlWay, Time]
    in_program: tuple[ControlWay, Time] | None


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
        states = {c.param: c.result for c in loop.carried}
        return refusal(loop.body, loop.trip, loop.checked, states, self.base.tasks.values)

    def decisions(self) -> Iterator[ControlDecision]:
        for part in self.base.control.values():
            if part.binding not in self.found:
                weighed = self.loop(part) if isinstance(part, LoopTask) else self.branch(part)
                self.found[part.binding] = weighed
        inside = frozenset(self.inside(self.base.tasks.parts, False))
        for binding, weighed in self.found.items():
            way, _ = weighed.any_way
            if binding in inside and weighed.in_program is not None:
                way, _ = weighed.in_program
            first = [w for w in weighed.ways if w.value == way]
            others = sorted((w for w in weighed.ways if w.value != way), key=lambda w: w.cost_us)
            kind = "loop" if isinstance(weighed.part, LoopTask) else "branch"
            reason = self.reason(weighed, way, binding in inside)
            yield ControlDecision(binding, kind, way, (*first, *others), reason)

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
        unit = "trip" if isinstance(weighed.part, LoopTask) else "decision"
        return f"predicted for a {unit}: {', '.join(said)}"

    def inside(self, parts: Sequence[UTask], in_program: bool) -> Iterator[str]:
        """The bindings of what stands inside of a loop or branch in the program."""
        for part in parts:
            if isinstance(part, LoopTask | BranchTask):
                if in_program:
                    yield part.binding
                here = in_program or self.found[part.binding].any_way[0].level != "host"
                if isinstance(part, LoopTask):
                    yield from self.inside(part.body, here)
                else:
                    yield from self.inside((*part.then, *part.orelse), here)

    def in_program(self, part: LoopTask | BranchTask) -> Time:
        found = self.found[part.binding]
        return (found.in_program or found.any_way)[1]

    def any_way(self, part: LoopTask | BranchTask) -> Time:
        return self.found[part.binding].any_way[1]

    def loop(self, loop: LoopTask) -> _Weighed:
        """A loop's ways by a trip."""
        entered, trips = self.base.entered(loop), self.base.host.made(loop)
        count = UNCOUNTED if trips is None else max(0, trips)
        (hosted,) = self.host.loops(loop.binding)
        on_host = self.host.trip_on_host(hosted, self.any_way)
        ways = [Candidate("on the host", HOST, on_host.terms)]
        if loop.level == "host":
            ways.append(Candidate("in the program", DEVICE, refused=loop.reason))
            return _Weighed(loop, tuple(ways), (HOST, on_host.times(count)), None)
        one = self.base.turn(loop, self.in_program)
        times = {DEVICE: one}
        ways.append(Candidate("in the program", DEVICE, one.terms))
        kept = self.kept[loop.binding]
        if kept and self.turns:
            ways.append(Candidate("unrolled", ControlWay("device", self.turns[0]), refused=kept))
        for turn, tree in self.unrolled.items() if not kept else ():
            way, why = ControlWay("device", turn), ""
            size = turn * sum(1 for _ in operators_of(loop.body))
            if self.options.schedule == "auto" and size > MOST_OPERATORS:
                why = f"a turn would be {size:,} kernels, more than {MOST_OPERATORS:,}"
            first, *left = tree.loops(loop.binding)
            if not why and first.turn < turn:
                why = f"it makes {trips} trips"
            if not why:
                turned = tree.turn(first, self.in_program)
                if trips:
                    rest = (entered + one.times(trips % turn)) if left else Time()
                    times[way] = (turned.times(trips // turn) + rest).times(1 / trips)
                else:
                    times[way] = turned.times(1 / turn)
            terms = times[way].terms if way in times else ()
            ways.append(Candidate(f"unrolled by {turn}", way, terms, refused=why))
        best = self.pick(times, one)
        entry = {w: entered + t.times(count) for w, t in times.items()}
        whole = on_host.times(count)
        least = best, entry[best]
        if self.options.schedule in FROM_PYTHON:
            return _Weighed(loop, tuple(ways), (HOST, whole), least)
        if self.options.schedule == "auto" and on_host.us < times[best].us:
            return _Weighed(loop, tuple(ways), (HOST, whole), least)
        return _Weighed(loop, tuple(ways), least, least)

    def pick(self, times: Mapping[ControlWay, Time], one: Time) -> ControlWay:
        """Of the ways in the program the one to take."""
        turned = [w for w in times if w.turn > 1]
        if self.options.schedule == "unrolled":
            return turned[0] if turned else DEVICE
        least = min(times, key=lambda w: times[w].us)
        return least if times[least].us < LEAST_GAIN * one.us else DEVICE

    def branch(self, branch: BranchTask) -> _Weighed:
        """A branch's ways by a decision."""
        hosted = self.host.decided_on_host(self.host.branch(branch.binding), self.any_way)
        ways = [Candidate("on the host", HOST, hosted.terms)]
        if branch.level == "host":
            ways.append(Candidate("in the program", DEVICE, refused=branch.reason))
            return _Weighed(branch, tuple(ways), (HOST, hosted), None)
        decided = self.base.decided(branch, self.in_program)
        ways.append(Candidate("in the program", DEVICE, decided.terms))
        least = (DEVICE, decided)
        to_host = self.options.schedule in FROM_PYTHON or (
            self.options.schedule == "auto" and hosted.us < decided.us
        )
        return _Weighed(branch, tuple(ways), (HOST, hosted) if to_host else least, least)
