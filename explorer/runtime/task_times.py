"""How many tasks each kernel call has under a binding, and how long one takes by the cost model."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.codegen.build import KernelCode
from explorer.cost.estimate import Estimate, tasks
from explorer.devices.model import Device
from explorer.grinder import OperatorTask
from explorer.ir.decisions import Tiling
from explorer.ir.dims import Sizes
from explorer.ir.kernel import Kernel
from explorer.ir.normal import normalise
from explorer.ir.program import Program


class TaskTimes:
    """Facts about kernel calls, with code or without; what no size changes is worked out once."""

    def __init__(self, program: Program, codes: Mapping[str, KernelCode], device: Device) -> None:
        self.codes, self.device = codes, device
        self._known: dict[str, tuple[Kernel, Tiling, Estimate]] = {}
        self._estimates: dict[tuple[Kernel, Tiling], Estimate] = {}  # equal kernels share one

    def of(self, operator: OperatorTask, sizes: Sizes) -> tuple[int, float]:
        """(tasks, microseconds of one)."""
        kernel, tiling, estimate = self._normal(operator)
        terms = estimate.terms(sizes)
        code = self.codes.get(operator.binding)
        count = tasks(kernel, tiling, sizes) if code is None else code.tasks(sizes)
        return count, sum(us for _, us in terms)

    def _normal(self, operator: OperatorTask) -> tuple[Kernel, Tiling, Estimate]:
        if operator.binding not in self._known:
            kernel = normalise(operator.call.kernel)
            found = operator.call.tiling
            tiling = found if isinstance(found, Tiling) else Tiling()
            estimate = self._estimates.get((kernel, tiling))
            if estimate is None:
                estimate = Estimate(kernel, tiling, self.device)
                self._estimates[kernel, tiling] = estimate
            self._known[operator.binding] = (kernel, tiling, estimate)
        return self._known[operator.binding]
