"""The paper's scheduling interface, to lay a wall by hand: `append` a task, let a task `wait`."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.errors import BadPolicy
from explorer.ir.decisions.wall import Instruction, RProgram, Run, Wait
from explorer.rammer.model import Facts, Placement, RTask, Share


class Builder:
    """An rProgram that grows task by task.

    `append` puts a task at the end of a unit; `wait` makes a task wait for others, at its barrier
    just before it. `placement()` is a policy's result: the needed waits are then derived anew.
    `program()` is the rProgram with the waits as they were requested, to inspect, to simulate, or
    to check for missing waits (`unguarded`).
    """

    def __init__(self, facts: Facts) -> None:
        """Create an empty rProgram of these operators."""
        self.facts = facts
        self._units: list[list[RTask]] = [[] for _ in range(facts.device.units)]
        self._order: list[RTask] = []
        self._places: dict[RTask, tuple[int, int]] = {}  # unit, and position on it
        self._awaited: dict[RTask, list[RTask]] = {}

    def append(self, task: RTask, unit: int) -> None:
        """Put a task at the end of a unit.

        Raises:
            BadPolicy: There is no such task or unit, or the task is placed already.
        """
        name = self._describe(task)
        if not 0 <= unit < len(self._units):
            raise BadPolicy(
                f"{name} is on a unit that does not exist",
                where=name,
                expected=f"0 to {len(self._units) - 1}",
                actual=unit,
            )
        if task in self._places:
            raise BadPolicy(f"{name} is on unit {self._places[task][0]} already", where=name)
        self._places[task] = unit, len(self._units[unit])
        self._units[unit].append(task)
        self._order.append(task)

    def wait(self, task: RTask, tasks: Iterable[RTask]) -> None:
        """Let a task start when others have ended; of those of one unit, the last one counts."""
        self._describe(task)
        for other in tasks:
            self._describe(other)
            self._awaited.setdefault(task, []).append(other)

    def placement(self) -> Placement:
        """Return the tasks as shares of one rProgram, in the order in which they were appended."""
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
        """Return a Run for each task, after the requested waits.

        Raises:
            BadPolicy: A task waits for one that was not appended, or that cannot end before it.
        """
        calls: dict[int, int] = {}
        for task in self._order:
            calls.setdefault(task.operator, len(calls))
        units = tuple(
            tuple(row for task in mine for row in self._rows(task, calls)) for mine in self._units
        )
        rprogram = RProgram(units, tuple(self.facts.operators[o].name for o in calls))
        if self._start_clocks() is None:
            raise BadPolicy("the units wait for each other in a cycle", try_="fewer waits")
        return rprogram

    def unguarded(self) -> list[tuple[RTask, RTask]]:
        """Return pairs of a task and an operand that may not have ended: missing waits."""
        clocks = self._start_clocks()
        if clocks is None:
            return []
        out = []
        for task, clock in clocks.items():
            for read in self.facts.operators[task.operator].reads:
                for index in range(self.facts.operators[read].tasks):
                    other = RTask(read, index)
                    unit, step = self._places.get(other, (0, len(self._order)))
                    if clock[unit] <= step:
                        out.append((task, other))
        return out

    def _describe(self, task: RTask) -> str:
        """Return a task's description.

        Raises:
            BadPolicy: There is no such task.
        """
        operators = self.facts.operators
        if not (
            0 <= task.operator < len(operators) and 0 <= task.index < operators[task.operator].tasks
        ):
            raise BadPolicy(f"there is no task {task.index} of operator {task.operator}")
        return f"task {task.index} of {operators[task.operator].name}"

    def _waits(self, task: RTask) -> list[Wait]:
        """Return a wait for the last awaited task of each other unit."""
        here, at = self._places[task]
        last: dict[int, int] = {}
        for other in self._awaited.get(task, ()):
            if other not in self._places:
                raise BadPolicy(
                    f"{self._describe(task)} waits for {self._describe(other)}, which was not "
                    "appended",
                    where=self._describe(task),
                )
            unit, before = self._places[other]
            if unit == here and before >= at:
                raise BadPolicy(
                    f"{self._describe(task)} waits for {self._describe(other)}, which comes after "
                    f"it on unit {unit}",
                    where=self._describe(task),
                )
            if unit != here:
                last[unit] = max(last.get(unit, 0), before + 1)
        return [Wait(unit, step) for unit, step in last.items()]

    def _rows(self, task: RTask, calls: dict[int, int]) -> list[Instruction]:
        run = Run(calls[task.operator], task.index, task.index + 1)
        return [*self._waits(task), run]

    def _start_clocks(self) -> dict[RTask, list[int]] | None:
        """Return each task's clock when it starts; None if the units wait in a cycle."""
        at_start: dict[RTask, list[int]] = {}
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
                    at_start[task] = clocks[unit][:]
                    clocks[unit][unit] += 1
                    after[unit].append(clocks[unit][:])
                    moved = True
        return at_start if len(at_start) == len(self._order) else None
