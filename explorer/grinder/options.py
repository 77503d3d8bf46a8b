"""Grinder's knobs: how control flow runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.grinder.policy import SCHEDULES, LevelPolicy, Ways
from explorer.ir.decisions.decided import Decisions
from explorer.passes.pipeline.ranges import OneOf, PolicyOf, Switch, Whole, check, option

MOST_TRIPS = 64  # of a turn, that can be asked for; chosen
MOST_MEASURED_WAYS = 16  # that can be asked for; chosen
MOST_OPEN_CALLS = 1 << 24  # of a recursion, that can be asked for; chosen
RECURSIONS = ("auto", "serial", "parallel")
INDEPENDENT = ("auto", "together", "apart")
ALONE = ("auto", "all", "one")


@dataclass(frozen=True, slots=True)
class Options:
    """How loops and branches run. `schedule`: "auto" takes for each the way that the cost model
    predicts to be the fastest; "device" keeps all that it can in the program; "host" lets Python
    decide every trip and every way, "eager" also launch each kernel by itself; "unrolled" is
    "device" with `unroll` trips a turn of innermost loops that no data end. "auto" weighs powers of
    two up to `unroll`; 1 unrolls nothing. A function of one's own is told what is inside of a loop
    or branch, and gives "host" or "device" and why. `inline_branches`: "auto" computes both sides
    of a branch and selects, where that is the same and takes less. `measure`: so many of the best
    ways of each loop and branch are timed on this machine; 0 times nothing.

    `recursion`: "parallel" deals calls of a function that calls itself, which do not need each
    other, to units of their own, each with a stack; "serial" makes one call after the other, on all
    units together or on one; "auto" takes what is predicted to be the fastest.

    `independent`: "apart" gives loops and branches that need nothing of each other to units of
    their own, each of which makes its trips and takes its sides without the others; "together" does
    one after the other on all units; "auto" takes what is predicted to be the fastest.

    `alone`: a loop or branch beside which nothing stands runs on "all" units, which meet in every
    trip, or on "one", which meets nobody before its end; "auto" takes what is predicted to be the
    fastest.

    `memoise`: Python follows the calls of a function that calls itself, and one with arguments that
    another call of the run was given has what that one gave, the bytes being compared. It takes
    less where few calls differ, of many; else more, and memory until the run ends.

    `depth`: how many calls of a recursive function are open at once at most. A run that would need
    more ends with BoundError; a stack of so many frames that takes more memory than a model may
    have is refused before it. 0: 2000, or fewer where their frames would take more than an eighth
    of that memory. Where Python follows the calls there may be 100,000 at most, 2000 for 0.
    """

    schedule: str | LevelPolicy = option(
        "auto", PolicyOf("grinder", SCHEDULES), "how loops and branches run"
    )
    unroll: int = option(8, Whole(1, MOST_TRIPS), "iterations that are unrolled, at most")
    inline_branches: bool = option(True, Switch(), "small branches may be computed on both sides")
    measure: int = option(
        0, Whole(0, MOST_MEASURED_WAYS), "of the best ways, so many are timed; 0: none"
    )
    recursion: str = option(
        "auto", OneOf(RECURSIONS), "how calls of a function that calls itself run"
    )
    independent: str = option(
        "auto", OneOf(INDEPENDENT), "loops that need nothing of each other: apart or together"
    )
    alone: str = option(
        "auto", OneOf(ALONE), "a loop beside which nothing stands: on all units, or on one"
    )
    memoise: bool = option(False, Switch(), "calls with equal arguments are made once")
    depth: int = option(
        0, Whole(0, MOST_OPEN_CALLS), "open calls of a recursion, at most; 0: by memory"
    )

    def __post_init__(self) -> None:
        check("grinder", self)

    @property
    def ways(self) -> Ways:
        """The same for every loop and branch, before any is looked at."""
        if not isinstance(self.schedule, str):
            return Ways(self.schedule)
        turn = self.unroll if self.schedule == "unrolled" else 1
        return Ways(SCHEDULES[self.schedule], turn, apart=self.schedule == "eager")


def ways_of(decisions: Decisions) -> Ways:
    """How the loops and branches of a program run, as far as that was decided."""
    found = decisions.grinder
    asked = found.ways if isinstance(found, Options) else Ways()
    return replace(asked, chosen={d.binding: d for d in decisions.control})
