"""What Rammer is told of straight runs under one binding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from explorer.grinder import OperatorTask, UProgram
from explorer.ir.shapes.dims import Sizes
from explorer.rammer import Facts, RKernel, ROperator, VDevice
from explorer.rammer import Options as RammerOptions
from explorer.runtime.planning.extents import Extents
from explorer.runtime.planning.runs.sheet_times import SheetTimes
from explorer.runtime.planning.runs.straight_runs import Run
from explorer.runtime.planning.runs.task_times import TaskFact

TaskFacts: TypeAlias = Callable[[OperatorTask, Sizes], TaskFact]


class RunFacts:
    """The tasks of each operator, how long one takes, and what it may choose from."""

    def __init__(
        self,
        program: UProgram,
        units: VDevice,
        task_facts: TaskFacts,
        rammer: RammerOptions,
        sheet: SheetTimes | None,
    ) -> None:
        self.program, self.units = program, units
        self.task_facts, self.rammer, self.sheet = task_facts, rammer, sheet

    def of(
        self, runs: Sequence[Run], sizes: Sizes, extents: Extents
    ) -> Iterator[tuple[VDevice, list[Facts]]]:
        """The units, and the facts of each run; a data sheet's units depend on what runs there, and
        there may be several ways, of which the first is estimated to be best.
        """
        if self.sheet is None:
            yield self.units, [self._facts(run, sizes, extents) for run in runs]
            return
        told = [(run.operators, run.reads) for run in runs]
        yield from self.sheet.facts(told, sizes, extents, self.rammer)

    def _facts(self, run: Run, sizes: Sizes, extents: Extents) -> Facts:
        operators = []
        stands_for: list[tuple[int, ...]] = []  # an operator without tasks orders nothing itself
        counts: list[int] = []
        for n, (operator, reads) in enumerate(zip(run.operators, run.reads)):
            fact = self.task_facts(operator, sizes)
            tasks = fact.tasks
            if not all(extents.shape(operator.results[0])):
                tasks = 0  # nothing to write
            waits = tuple(sorted({w for read in reads for w in stands_for[read]}))
            constant, constant_bytes = self._largest_constant(operator, extents)
            kernels = () if n in run.tied or not tasks else self._kernels(operator, sizes, fact)
            aligned = tuple(w for w in run.aligned[n] if counts[w] == tasks and w in waits)
            counts.append(tasks)
            operators.append(
                ROperator(
                    operator.name,
                    tasks,
                    fact.us,
                    waits,
                    operator.origin,
                    kernels=kernels,
                    constant=constant,
                    constant_bytes=constant_bytes,
                    kept_us=fact.kept_us,
                    aligned=aligned,
                    source=fact.source,
                )
            )
            stands_for.append((n,) if tasks else waits)
        return Facts(tuple(operators), self.units)

    def _kernels(
        self, operator: OperatorTask, sizes: Sizes, fastest: TaskFact
    ) -> tuple[RKernel, ...]:
        """What the policy may choose from, where there is a choice."""
        if operator.call.efficient is None:
            return ()
        efficient = self.task_facts(operator.implementation(1), sizes)
        return tuple(
            RKernel(name, fact.tasks, fact.us, fact.kept_us, fact.source)
            for name, fact in (
                ("fastest", fastest.beside(efficient)),
                ("efficient", efficient.beside(fastest)),
            )
        )

    def _largest_constant(self, operator: OperatorTask, extents: Extents) -> tuple[str, int]:
        """Which of its operands is the largest that no run changes, and its bytes."""
        values = self.program.values
        found = [a for a in operator.args if values[values[a].root].home == "constant"]
        if not found:
            return "", 0
        largest = max(found, key=extents.bytes)
        where = values[largest]
        return f"{where.root} + {where.offset}" if where.offset else where.root, extents.bytes(
            largest
        )
