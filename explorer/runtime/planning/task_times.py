"""Facts of straight runs for Rammer: tasks of each call under a binding, and the time of one.

Times are measured, or modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

from explorer.codegen.build import KernelCode
from explorer.cost.estimate import Estimate, tasks
from explorer.cost.levels import levels_of
from explorer.devices.model import Device
from explorer.grinder import LibraryTask, OperatorTask, UProgram
from explorer.grinder.straight_runs import StraightRun
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Sizes, evaluate_dim, symbols_of
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Program
from explorer.memory.extents import Extents
from explorer.process.counters import counters
from explorer.rammer import Facts, RKernel, ROperator, TaskProfile, VDevice
from explorer.rammer import Options as RammerOptions

if TYPE_CHECKING:  # grids of thread blocks are timed for GPUs alone
    from explorer.runtime.planning.sheet_times import SheetTimes

Key = tuple[str, tuple[tuple[str, int], ...]]
REMEMBERED = 512  # kernels: most recur in the next compilation of a program


@dataclass(frozen=True, slots=True)
class TaskFact:
    """The tasks of a kernel call under one binding, and the time of one.

    `us`: a task whose operands come from where they lie after the rest of the program; `cached_us`:
    one whose part of its constants is still in its unit's private cache (0: as `us`). `source`:
    "modelled", or "measured" by time stamps of runs, for which the model predicts `modelled_us`.
    """

    tasks: int
    us: float
    cached_us: float = 0.0
    source: str = "modelled"
    modelled_us: float = 0.0

    def rescaled(self, other: TaskFact) -> TaskFact:
        """Return the fact for a comparison with another tiling of the same call.

        If only the other one was measured, scale this one by the other's ratio of measured to
        modelled time.
        """
        if self.source == other.source or not other.modelled_us:
            return self
        more = other.us / other.modelled_us
        return replace(self, us=self.us * more, cached_us=self.cached_us * more)


class TaskTimes:
    """Facts about kernel calls, with code or without; parts that no size changes are computed once.

    A profile counts if it was measured on as many units; without code, it has no entries.
    """

    def __init__(
        self,
        program: Program,
        codes: Mapping[str, KernelCode],
        device: Device,
        profile: TaskProfile | None = None,
        threads: int = 0,
    ) -> None:
        """Prepare the facts of a program's calls."""
        self.codes, self.device = codes, device
        fits = profile is not None and profile.fits(threads or device.units)
        self.profile = profile if fits else None
        self._normal_forms: dict[str, tuple[Kernel, Tiling, Estimate]] = {}
        self._estimates: dict[object, Estimate] = {}  # calls of equal code share one
        # of the latest binding
        self._times: tuple[object, dict[Estimate, tuple[float, float]]] = (
            None,
            {},
        )

    def of(self, operator: OperatorTask, sizes: Sizes) -> TaskFact:
        """Return the fact of a call under a binding."""
        fact = self.modelled(operator, sizes)
        key = self.key_of(operator, sizes) if self.profile is not None else None
        if self.profile is None or key is None:
            return fact
        measured = self.profile.of(*key, operator.name)
        if measured is None:
            return fact
        cached_us = measured.cached_us or measured.us * (
            fact.cached_us / fact.us if fact.us else 0.0
        )
        cached_us = cached_us if cached_us < measured.us else 0.0
        return TaskFact(fact.tasks, measured.us, cached_us, "measured", fact.us)

    def modelled(self, operator: OperatorTask, sizes: Sizes) -> TaskFact:
        """Return the cost model's fact of a call under a binding."""
        kernel, tiling, estimate = self._normal(operator)
        code = self.codes.get(operator.binding)
        count = tasks(kernel, tiling, sizes) if code is None else code.tasks(sizes)
        us, cached_us = self._us(estimate, sizes)
        return TaskFact(count, us, cached_us if kernel.constants and cached_us < us else 0.0)

    def key_of(self, operator: OperatorTask, sizes: Sizes) -> Key | None:
        """Return the key of a measured time: the code's hash, and the sizes that it takes.

        Return None without code, or if a size is unknown.
        """
        code = self.codes.get(operator.binding)
        dims = [] if code is None else [a for a in code.arguments if a.kind == "dim"]
        if code is None or not all(symbols_of(a.elements) <= sizes.keys() for a in dims):
            return None
        return code.key, tuple((a.local, evaluate_dim(a.elements, sizes)) for a in dims)

    def library(self, task: LibraryTask, extents: Extents) -> TaskFact:
        """Return the fact of a library call, which is one task.

        Modelled: Python's overhead, and its operands once through memory.
        """
        if self.profile is not None:
            measured = self.profile.of(*self.library_key(task, extents), task.name)
            if measured is not None:
                return TaskFact(1, measured.us, 0.0, "measured")
        names = [*(a for a in task.args if a is not None), *task.results]
        moved = sum(extents.bytes(name) for name in names)
        farthest = levels_of(self.device).levels[-1]
        return TaskFact(1, self.device.python.library_us + moved / farthest.bytes_per_us)

    def library_key(self, task: LibraryTask, extents: Extents) -> Key:
        """Return the key of a library call: function, attributes, and shapes of its operands."""
        call = task.call
        shapes = [a and extents.shape(a) for a in (*task.args, *task.results)]
        text = f"{call.library} {call.function} {call.attrs!r} {shapes}"
        return blake2b(text.encode(), digest_size=16).hexdigest(), ()

    def _us(self, estimate: Estimate, sizes: Sizes) -> tuple[float, float]:
        """Return the time of a task, and of one with cached constants, computed once a binding."""
        binding = tuple(sorted(sizes.items()))
        latest, times = self._times
        if latest != binding:
            times = {}
            self._times = binding, times
        if estimate not in times:
            us = sum(us for _, us in estimate.terms(sizes))
            times[estimate] = us, estimate.cached_constants_us(sizes)
        return times[estimate]

    def _normal(self, operator: OperatorTask) -> tuple[Kernel, Tiling, Estimate]:
        if operator.binding not in self._normal_forms:
            kernel = _normal_form(operator.call.kernel)
            tiling = operator.call.core_tiling or Tiling()
            key = self._estimate_key(operator, kernel, tiling)
            estimate = self._estimates.get(key)
            if estimate is None:
                counters.add("estimates_made")
                estimate = self._estimates[key] = _estimate(kernel, tiling, self.device)
            self._normal_forms[operator.binding] = (kernel, tiling, estimate)
        return self._normal_forms[operator.binding]

    def _estimate_key(self, operator: OperatorTask, kernel: Kernel, tiling: Tiling) -> object:
        """Return a key of calls with equal task times: one code, for operands of the same shapes.

        The names of axes and tensors, and a tensor's offset, do not matter.
        """
        code = self.codes.get(operator.binding)
        if code is None:
            return kernel, tiling
        shapes = tuple(kernel.shape(name) for name in (*kernel.inputs, *kernel.outputs))
        return code.key, shapes, replace(tiling, tile=tuple(("", n) for _, n in tiling.tile))


@lru_cache(maxsize=REMEMBERED)
def _normal_form(kernel: Kernel) -> Kernel:
    return normalise(kernel)


@lru_cache(maxsize=REMEMBERED)
def _estimate(kernel: Kernel, tiling: Tiling, device: Device) -> Estimate:
    return Estimate(kernel, tiling, device)


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


TaskFacts: TypeAlias = Callable[[OperatorTask, Sizes], TaskFact]
