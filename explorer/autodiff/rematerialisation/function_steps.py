"""Steps of a function for the policy: its bindings with bytes and predicted times."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.autodiff.rematerialisation.model import BindingStep, Steps
from explorer.ir.calls import KernelCall, MatchCast, ShapeOf, Var, View, updates_of
from explorer.ir.decisions.tiling import TilingDecision
from explorer.ir.kernels.in_place import written_over
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import ShapeEnv
from explorer.ir.types import Tensor
from explorer.passes.recurrent.dataflow import needs_of


def steps_of(program: Program, function: Function) -> Steps:
    """Return the steps of a tiled function, at the sizes that its symbols hint at."""
    tilings = {t.binding: t for t in program.decisions.tilings}
    return _StepBuilder(function, program.env, tilings).steps()


class _StepBuilder:
    """A walk over a function that records each value's producer and the memory it lies in."""

    def __init__(
        self, function: Function, env: ShapeEnv, tilings: Mapping[str, TilingDecision]
    ) -> None:
        self.function, self.env, self.tilings = function, env, tilings
        self.needs = needs_of(function.body)
        self.home: dict[str, int] = {}  # by value, the step that allocates its memory
        self.readers: dict[int, list[int]] = {}
        self.over = self._in_memory_of(written_over(function.body))
        self.outputs = self._in_memory_of({v.name for v in function.outputs})

    def _in_memory_of(self, names: set[str] | frozenset[str]) -> set[str]:
        """Return these values and all values that they are views of."""
        closure = {*names}
        for b in reversed(self.function.body):
            if isinstance(b.expr, View | MatchCast) and b.var.name in closure:
                closure.add(b.expr.arg.name)
        return closure

    def steps(self) -> Steps:
        """Return a step for each binding."""
        return Steps([self.step(n, b) for n, b in enumerate(self.function.body)])

    def step(self, n: int, b: Binding) -> BindingStep:
        """Return the step of a binding."""
        match b.expr:
            case View(arg) | MatchCast(arg):
                self._share_memory(b.var, arg)
                moves = isinstance(b.expr, View) and arg.name not in self.over
                return BindingStep(b.name, tuple(self.needs[n]), is_view=True, repeats=moves)
            case ShapeOf():
                return BindingStep(b.name, tuple(self.needs[n]), is_view=True, repeats=False)
            case KernelCall() as call:
                return self.kernel(n, b, call)
        return self.other(n, b, False)

    def kernel(self, n: int, b: Binding, call: KernelCall) -> BindingStep:
        """Return the step of a kernel call, placed after the readers of memory it overwrites."""
        needs = set(self.needs[n])
        pairs = updates_of(call, b.vars)
        for var, arg in pairs:
            self._share_memory(var, arg)
            needs |= {*self.readers.get(self.home.get(arg.name, -1), ())}
        self.needs[n] = sorted(needs)
        return self.other(n, b, not pairs and not any(v.name in self.over for v in b.reads))

    def other(self, n: int, b: Binding, repeats: bool) -> BindingStep:
        """Return a step whose results have their own memory.

        The function's outputs do not count.
        """
        own = [v for v in b.vars if v.name not in self.home]
        self.home |= {v.name: n for v in own}
        reads = tuple(sorted({self.home[v.name] for v in b.reads if v.name in self.home}))
        for read in reads:
            self.readers.setdefault(read, []).append(n)
        size = sum(self._bytes(v) for v in own if v.name not in self.outputs)
        can_repeat = repeats and not any(v.name in self.over for v in b.vars)
        return BindingStep(
            b.name, tuple(self.needs[n]), reads, size, self._us(b.name), False, can_repeat
        )

    def _share_memory(self, var: Var, arg: Var) -> None:
        if arg.name in self.home:
            self.home[var.name] = self.home[arg.name]

    def _bytes(self, var: Var) -> int:
        has_size = isinstance(var.type, Tensor) and var.type.is_known and var.type.dtype is not None
        return self.env.hint(var.tensor.bytes) if has_size else 0

    def _us(self, name: str) -> float:
        """Return the measured time, or else the predicted one; a finite number."""
        tiling = self.tilings.get(name)
        if tiling is None:
            return 0.0
        if tiling.measured:
            return tiling.measured[0].measured_us
        terms = next((c.terms for c in tiling.candidates if c.value == tiling.chosen), ())
        return sum(us for _, us in terms)  # also of a tiling that no rule allows: it runs
