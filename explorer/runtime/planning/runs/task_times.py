"""How many tasks each call has under a binding, and how long one takes: by the clock where it was
measured, else by the cost model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b

from explorer.codegen.build import KernelCode
from explorer.cost.estimate import Estimate, tasks
from explorer.cost.levels import levels_of
from explorer.counters import counters
from explorer.devices.model import Device
from explorer.grinder import LibraryTask, OperatorTask
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes, evaluate_dim, symbols_of
from explorer.rammer import TaskProfile
from explorer.runtime.planning.extents import Extents

Key = tuple[str, tuple[tuple[str, int], ...]]
REMEMBERED = 512  # kernels: the next setting of a program has most of them again


@dataclass(frozen=True, slots=True)
class TaskFact:
    """A kernel call under one binding: how many tasks, and how long one takes.

    `us`: a task whose operands come from where they lie after the rest of the program; `kept_us`:
    one whose part of its constants is still in its unit's private cache (0: as `us`). `source`:
    "modelled", or "measured" by time stamps of runs, where the model says `modelled_us`.
    """

    tasks: int
    us: float
    kept_us: float = 0.0
    source: str = "modelled"
    modelled_us: float = 0.0

    def beside(self, other: TaskFact) -> TaskFact:
        """As it compares with the same call's other tiling: where a clock saw that one alone, this
        one takes as much more than modelled as that does.
        """
        if self.source == other.source or not other.modelled_us:
            return self
        more = other.us / other.modelled_us
        return replace(self, us=self.us * more, kept_us=self.kept_us * more)


@lru_cache(maxsize=REMEMBERED)
def _normal_form(kernel: Kernel) -> Kernel:
    return normalise(kernel)


@lru_cache(maxsize=REMEMBERED)
def _estimate(kernel: Kernel, tiling: Tiling, device: Device) -> Estimate:
    return Estimate(kernel, tiling, device)


class TaskTimes:
    """Facts about kernel calls, with code or without; what no size changes is worked out once.

    A profile counts where it was measured on as many units; without code, nothing is known by it.
    """

    def __init__(
        self,
        program: Program,
        codes: Mapping[str, KernelCode],
        device: Device,
        profile: TaskProfile | None = None,
        threads: int = 0,
    ) -> None:
        self.codes, self.device = codes, device
        fits = profile is not None and profile.fits(threads or device.units)
        self.profile = profile if fits else None
        self._known: dict[str, tuple[Kernel, Tiling, Estimate]] = {}
        self._estimates: dict[object, Estimate] = {}  # calls of equal code share one
        self._times: tuple[object, dict[Estimate, tuple[float, float]]] = (None, {})  # a binding's

    def of(self, operator: OperatorTask, sizes: Sizes) -> TaskFact:
        """What is known of a call under a binding."""
        fact = self.modelled(operator, sizes)
        key = self.key_of(operator, sizes) if self.profile is not None else None
        if self.profile is None or key is None:
            return fact
        found = self.profile.of(*key, operator.name)
        if found is None:
            return fact
        kept_us = found.kept_us or found.us * (fact.kept_us / fact.us if fact.us else 0.0)
        kept_us = kept_us if kept_us < found.us else 0.0
        return TaskFact(fact.tasks, found.us, kept_us, "measured", fact.us)

    def modelled(self, operator: OperatorTask, sizes: Sizes) -> TaskFact:
        """What the cost model says of a call under a binding."""
        kernel, tiling, estimate = self._normal(operator)
        code = self.codes.get(operator.binding)
        count = tasks(kernel, tiling, sizes) if code is None else code.tasks(sizes)
        us, kept_us = self._us(estimate, sizes)
        return TaskFact(count, us, kept_us if kernel.constants and kept_us < us else 0.0)

    def key_of(self, operator: OperatorTask, sizes: Sizes) -> Key | None:
        """What a time is kept under: the code's hash, and the sizes that it asks for; None without
        code, or where a size is not known.
        """
        code = self.codes.get(operator.binding)
        dims = [] if code is None else [a for a in code.arguments if a.kind == "dim"]
        if code is None or not all(symbols_of(a.elements) <= sizes.keys() for a in dims):
            return None
        return code.key, tuple((a.local, evaluate_dim(a.elements, sizes)) for a in dims)

    def library(self, task: LibraryTask, extents: Extents) -> TaskFact:
        """A library call as one task; modelled: Python's way to it, and its operands once through
        memory.
        """
        if self.profile is not None:
            found = self.profile.of(*self.library_key(task, extents), task.name)
            if found is not None:
                return TaskFact(1, found.us, 0.0, "measured")
        names = [*(a for a in task.args if a is not None), *task.results]
        moved = sum(extents.bytes(name) for name in names)
        farthest = levels_of(self.device).levels[-1]
        return TaskFact(1, self.device.python.library_us + moved / farthest.bytes_per_us)

    def library_key(self, task: LibraryTask, extents: Extents) -> Key:
        """The same for a library call: its function, its attributes, the shapes of its operands."""
        call = task.call
        shapes = [a and extents.shape(a) for a in (*task.args, *task.results)]
        text = f"{call.library} {call.function} {call.attrs!r} {shapes}"
        return blake2b(text.encode(), digest_size=16).hexdigest(), ()

    def _us(self, estimate: Estimate, sizes: Sizes) -> tuple[float, float]:
        """The time of a task, and of one whose constants are near, worked out once a binding."""
        binding = tuple(sorted(sizes.items()))
        known, times = self._times
        if known != binding:
            times = {}
            self._times = binding, times
        if estimate not in times:
            us = sum(us for _, us in estimate.terms(sizes))
            times[estimate] = us, estimate.kept_us(sizes)
        return times[estimate]

    def _normal(self, operator: OperatorTask) -> tuple[Kernel, Tiling, Estimate]:
        if operator.binding not in self._known:
            kernel = _normal_form(operator.call.kernel)
            found = operator.call.tiling
            tiling = found if isinstance(found, Tiling) else Tiling()
            key = self._alike(operator, kernel, tiling)
            estimate = self._estimates.get(key)
            if estimate is None:
                counters.add("estimates_made")
                estimate = self._estimates[key] = _estimate(kernel, tiling, self.device)
            self._known[operator.binding] = (kernel, tiling, estimate)
        return self._known[operator.binding]

    def _alike(self, operator: OperatorTask, kernel: Kernel, tiling: Tiling) -> object:
        """What calls have in common whose tasks take the same time: one code, for operands of the
        same shapes. The names of axes and tensors, and where in a tensor it begins, say nothing.
        """
        code = self.codes.get(operator.binding)
        if code is None:
            return kernel, tiling
        shapes = tuple(kernel.shape(name) for name in (*kernel.inputs, *kernel.outputs))
        return code.key, shapes, replace(tiling, tile=tuple(("", n) for _, n in tiling.tile))
