"""Facts about straight runs under one binding, for Rammer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from explorer.grinder import OperatorTask, UProgram
from explorer.ir.shapes.dims import Sizes
from explorer.rammer import Facts, RKernel, ROperator, VDevice
from explorer.rammer import Options as RammerOptions
from explorer.runtime.planning.extents import Extents
from explorer.runtime.planning.runs.sheet_times import SheetTimes
from explorer.runtime.planning.runs.straight_runs import StraightRun
from explorer.runtime.planning.runs.task_times import TaskFact

TaskFacts: TypeAlias = Callable[[OperatorTask, Sizes], TaskFact]


class RunFacts:
    """The tasks of each operator, their time, and the implementations to choose from."""

    def __init__(
        self,
        program: UProgram,
        units: VDevice,
        task_facts: TaskFacts,
        rammer: RammerOptions,
        sheet: SheetTimes | None,
    ) -> None:
        """Prepare the facts of a program's runs."""
        self.program, self.units = program, units
        self.task_facts, self.rammer, self.sheet = task_facts, rammer, sheet

    def of(
        self, runs: Sequence[StraightRun], sizes: Sizes, extents: Extents
    ) -> Iterator[tuple[VDevice, list[Facts]]]:
        """Yield candidate units with the facts of each run, best estimate first.

        On a data sheet the units depend on the runs, and there may be several candidates.
        """
        if self.sheet is None:
            yield self.units, [self._facts(run, sizes, extents) for run in runs]
            return
        waits = [(run.operators, run.reads) for run in runs]
        yield from self.sheet.facts(waits, sizes, extents, self.rammer)

    def _facts(self, run: StraightRun, sizes: Sizes, extents: Extents) -> Facts:
        operators = []
        stands_for: list[tuple[int, ...]] = []  # an operator without tasks passes on its waits
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
                    cached_us=fact.cached_us,
                    aligned=aligned,
                    source=fact.source,
                )
            )
            stands_for.append((n,) if tasks else waits)
        return Facts(tuple(operators), self.units)

    def _kernels(
        self, operator: OperatorTask, sizes: Sizes, fastest: TaskFact
    ) -> tuple[RKernel, ...]:
        """Return the implementations that the policy may choose from, if there is a choice."""
        if operator.call.efficient is None:
            return ()
        efficient = self.task_facts(operator.implementation(1), sizes)
        return tuple(
            RKernel(name, fact.tasks, fact.us, fact.cached_us, fact.source)
            for name, fact in (
                ("fastest", fastest.rescaled(efficient)),
                ("efficient", efficient.rescaled(fastest)),
            )
        )

    def _largest_constant(self, operator: OperatorTask, extents: Extents) -> tuple[str, int]:
        """Return the operator's largest constant operand, and its bytes."""
        values = self.program.values
        constants = [a for a in operator.args if values[values[a].root].home == "constant"]
        if not constants:
            return "", 0
        largest = max(constants, key=extents.bytes)
        where = values[largest]
        return f"{where.root} + {where.offset}" if where.offset else where.root, extents.bytes(
            largest
        )
