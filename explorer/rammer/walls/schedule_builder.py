"""The paper's scheduling interface, to lay a wall by hand: `append` a task, let a task `wait`."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.errors import BadPolicy
from explorer.ir.decisions.rprogram import Instruction, RProgram, Run, Wait
from explorer.rammer.model import Facts, Placement, RTask, Share


class Builder:
    """An rProgram that grows task by task.

    `append` puts a task at the end of a unit; `wait` has a task wait for others, at its barrier
    just before it. `placement()` is what a policy returns: the waits that are needed are then found
    anew. `program()` is the rProgram with the waits as they were given, to look at, to simulate, or
    to ask what they leave open (`unguarded`).
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._units: list[list[RTask]] = [[] for _ in range(facts.device.units)]
        self._order: list[RTask] = []
        self._places: dict[RTask, tuple[int, int]] = {}  # unit, and how many are before it there
        self._awaited: dict[RTask, list[RTask]] = {}

    def append(self, task: RTask, unit: int) -> None:
        """Put a task at the end of a unit; BadPolicy if there is no such task or unit, or if it is
        placed already.
        """
        name = self._known(task)
        if not 0 <= unit < len(self._units):
            raise BadPolicy(
                f"{name} was given to a unit that is not there",
                where=name,
                expected=f"0 to {len(self._units) - 1}",
                found=unit,
            )
        if task in self._places:
            raise BadPolicy(f"{name} is on unit {self._places[task][0]} already", where=name)
        self._places[task] = unit, len(self._units[unit])
        self._units[unit].append(task)
        self._order.append(task)

    def wait(self, task: RTask, tasks: Iterable[RTask]) -> None:
        """A task starts when others have ended; of those of one unit, the last one is kept."""
        self._known(task)
        for other in tasks:
            self._known(other)
            self._awaited.setdefault(task, []).append(other)

    def placement(self) -> Placement:
        """The tasks as shares of one rProgram, in the order in which they were appended."""
        shares: list[Share] = []
        for task in self._order:
            unit = self._places[task][0]
            last = shares[-1] if shares else None
            follows = last and (last.operator, last.unit, last.last)
            if last is not None and follows == (task.operator, unit, task.index):
                shares[-1] = Share(task.operator, unit, last.first, task.index + 1)
            else:
                shares.append(Share(task.operator, unit, task.index, task.index + 1))
        return Placement((tuple(shares),) if shares else ())

    def program(self) -> RProgram:
        """A Run for each task, after the waits that were given; BadPolicy where a task waits for
        one that was not appended, or that cannot end before it.
        """
        calls: dict[int, int] = {}
        for task in self._order:
            calls.setdefault(task.operator, len(calls))
        units = tuple(
            tuple(row for task in mine for row in self._rows(task, calls)) for mine in self._units
        )
        found = RProgram(units, tuple(self.facts.operators[o].name for o in calls))
        if self._ended() is None:
            raise BadPolicy("the units wait for each other in a circle", try_="fewer waits")
        return found

    def unguarded(self) -> list[tuple[RTask, RTask]]:
        """Tasks with one that they read and that may not have ended: waits that are missing."""
        known = self._ended()
        if known is None:
            return []
        out = []
        for task, clock in known.items():
            for read in self.facts.operators[task.operator].reads:
                for index in range(self.facts.operators[read].tasks):
                    other = RTask(read, index)
                    unit, step = self._places.get(other, (0, len(self._order)))
                    if clock[unit] <= step:
                        out.append((task, other))
        return out

    def _known(self, task: RTask) -> str:
        operators = self.facts.operators
        if not (
            0 <= task.operator < len(operators) and 0 <= task.index < operators[task.operator].tasks
        ):
            raise BadPolicy(f"there is no task {task.index} of operator {task.operator}")
        return f"task {task.index} of {operators[task.operator].name}"

    def _waits(self, task: RTask) -> list[Wait]:
        """The last awaited task of each other unit."""
        here, at = self._places[task]
        last: dict[int, int] = {}
        for other in self._awaited.get(task, ()):
            if other not in self._places:
                raise BadPolicy(
                    f"{self._known(task)} waits for {self._known(other)}, which was not appended",
                    where=self._known(task),
                )
            unit, before = self._places[other]
            if unit == here and before >= at:
                raise BadPolicy(
                    f"{self._known(task)} waits for {self._known(other)}, which comes after it on "
                    f"unit {unit}",
                    where=self._known(task),
                )
            if unit != here:
                last[unit] = max(last.get(unit, 0), before + 1)
        return [Wait(unit, step) for unit, step in last.items()]

    def _rows(self, task: RTask, calls: dict[int, int]) -> list[Instruction]:
        run = Run(calls[task.operator], task.index, task.index + 1)
        return [*self._waits(task), run]

    def _ended(self) -> dict[RTask, list[int]] | None:
        """What each task knows to be over when it starts; None where the units wait in a circle."""
        known: dict[RTask, list[int]] = {}
        clocks = [[0] * len(self._units) for _ in self._units]
        after: list[list[list[int]]] = [[] for _ in self._units]  # by unit and step
        moved = True
        while moved:
            moved = False
            for unit, mine in enumerate(self._units):
                while len(after[unit]) < len(mine):
                    task = mine[len(after[unit])]
                    waits = self._waits(task)
                    if any(len(after[w.unit]) < w.step for w in waits):
                        break
                    for wait in waits:
                        clocks[unit] = list(map(max, clocks[unit], after[wait.unit][wait.step - 1]))
                    known[task] = clocks[unit][:]
                    clocks[unit][unit] += 1
                    after[unit].append(clocks[unit][:])
                    moved = True
        return known if len(known) == len(self._order) else None
