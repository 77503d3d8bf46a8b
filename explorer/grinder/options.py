"""Grinder's options: how control flow runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.grinder.policy import SCHEDULES, ControlSchedules, LevelPolicy
from explorer.ir.decisions.decided import Decisions
from explorer.passes.ranges import Integer, OneOf, PolicyOf, Switch, check, option

MOST_TRIPS = 64  # of a turn, limit of the option; chosen
MOST_MEASURED_SCHEDULES = 16  # limit of the option; chosen
MOST_OPEN_CALLS = 1 << 24  # of a recursion, limit of the option; chosen
RECURSIONS = ("auto", "serial", "parallel")
INDEPENDENT = ("auto", "together", "apart")
ALONE = ("auto", "all", "one")


@dataclass(frozen=True, slots=True)
class Options:
    """Options for loops, branches and recursion.

    `schedule`: "auto" selects for each loop and branch the schedule with the least predicted time;
    "device" keeps control flow in the program where possible; "host" lets Python decide every trip
    and every arm, "eager" also launches each kernel by itself; "unrolled" is "device" with `unroll`
    trips a turn of innermost loops whose data do not end them. "auto" tries powers of two up to
    `unroll`; 1 unrolls nothing. A function gets the body of a loop or branch, and returns "host" or
    "device" and a reason. `inline_branches`: "auto" computes both arms of a branch and selects,
    where that gives the same result and is faster. `measure`: the number of best schedules of each
    loop and branch to time on this machine; 0 times nothing.

    `recursion`: "parallel" distributes independent calls of a recursive function to separate units,
    each with a stack; "serial" makes one call after the other, on all units together or on one;
    "auto" selects the least predicted time.

    `independent`: "apart" gives independent loops and branches to separate units, each of which
    runs its trips and arms without the others; "together" runs one after the other on all units;
    "auto" selects the least predicted time.

    `alone`: a loop or branch without a concurrent one runs on "all" units, which meet at a barrier
    in every trip, or on "one", which needs no barrier before its end; "auto" selects the least
    predicted time.

    `memoise`: Python follows the calls of a recursive function, and a call whose arguments equal
    those of an earlier call of the run reuses its results; bytes are compared. This is faster if
    few of many calls differ; otherwise it is slower, and it uses memory until the run ends.

    `depth`: the largest number of open calls of a recursive function. A run that needs more ends
    with BoundError; a stack of that many frames that exceeds the memory limit of a model is refused
    before. 0: 2000, or fewer if their frames would exceed an eighth of that memory. If Python
    follows the calls, the limit is 100,000, and 0 means 2000.
    """

    schedule: str | LevelPolicy = option(
        "auto", PolicyOf("grinder", SCHEDULES), "how loops and branches run"
    )
    unroll: int = option(8, Integer(1, MOST_TRIPS), "iterations that are unrolled, at most")
    inline_branches: bool = option(True, Switch(), "small branches may be if-converted")
    measure: int = option(0, Integer(0, MOST_MEASURED_SCHEDULES), "best schedules to time; 0: none")
    recursion: str = option("auto", OneOf(RECURSIONS), "how calls of a recursive function run")
    independent: str = option("auto", OneOf(INDEPENDENT), "independent loops: apart or together")
    alone: str = option("auto", OneOf(ALONE), "a lone loop: on all units, or on one")
    memoise: bool = option(False, Switch(), "calls with equal arguments are made once")
    depth: int = option(
        0, Integer(0, MOST_OPEN_CALLS), "open calls of a recursion, at most; 0: by memory"
    )

    def __post_init__(self) -> None:
        """Check every option against its range."""
        check("grinder", self)

    @property
    def control_schedules(self) -> ControlSchedules:
        """The default control schedules, before any is selected for a binding."""
        if not isinstance(self.schedule, str):
            return ControlSchedules(self.schedule)
        turn = self.unroll if self.schedule == "unrolled" else 1
        return ControlSchedules(SCHEDULES[self.schedule], turn, apart=self.schedule == "eager")


def control_schedules_of(decisions: Decisions) -> ControlSchedules:
    """Return the control schedules of a program, as far as they are decided."""
    options = decisions.grinder
    schedules = options.control_schedules if isinstance(options, Options) else ControlSchedules()
    return replace(schedules, chosen={d.binding: d for d in decisions.control})
