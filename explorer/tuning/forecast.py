"""Forecasts for a model before compilation: operators, kernels, memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from explorer.errors import UnsupportedOperator
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.ir.calls import OpCall
from explorer.ir.program import Binding, Program
from explorer.ir.types import Tensor
from explorer.ops import RECORDS
from explorer.printed import Printed
from explorer.relax import deduce, legalize
from explorer.relax.deduction.knowledge import is_known


@dataclass(frozen=True, slots=True)
class OperatorForecast:
    """All operators of one type: their number and treatment."""

    op: str
    count: int
    becomes: str  # "compiled", "library call" or "unsupported"
    reason: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Forecast(Printed):
    """The expected result of a compilation.

    `hints`: the symbols' sizes that tiles would be chosen for. Bytes are for these sizes, with
    intermediates in separate memory.
    """

    model: str
    operators: tuple[OperatorForecast, ...]
    symbols: dict[str, tuple[int, int | None]]
    weight_bytes: int
    intermediate_bytes: int | None
    hints: dict[str, int]

    @property
    def supported(self) -> bool:
        """True if each operator has a kernel or a library call; no kernel is built for that."""
        return all(o.becomes != "unsupported" for o in self.operators)

    def __str__(self) -> str:
        """Return the forecast as a table."""
        lines = [f"{self.model}: {verdict(self)}"]
        for o in self.operators:
            lines.append(
                f"  {o.count:5d}  {o.op:24s} {o.becomes}{': ' + o.reason if o.reason else ''}"
            )
        lines += [f"  {name} is planned as {size}" for name, size in self.hints.items()]
        lines.append(f"  weights {self.weight_bytes / 1e6:.1f} MB")
        if self.intermediate_bytes is not None:
            lines.append(f"  intermediates {self.intermediate_bytes / 1e6:.1f} MB before sharing")
        return "\n".join(lines)


def verdict(forecast: Forecast) -> str:
    """Return the verdict in words; it promises no more than that every operator is supported."""
    return "every operator is supported" if forecast.supported else "does not compile"


def check(model: Any) -> Forecast:
    """Forecast the treatment of each operator and the memory of a model, without compiling.

    Raises:
        BadModelFile: the file cannot be read.
    """
    loaded = model if isinstance(model, Model) else load(model)
    counts = Counter(
        b.expr.op for f in loaded.program.functions for b in f.body if isinstance(b.expr, OpCall)
    )
    refused: dict[str, str] = {}
    library: dict[str, str] = {}
    after: Program | None = None
    try:
        after = legalize(deduce(loaded.program))
        library = dict(map(_library_reason, after.library_calls))
    except UnsupportedOperator as error:
        name = next((op for op in counts if op in error.sentence.split()), "")
        refused[name or next(iter(counts), "")] = error.sentence
    operators = tuple(
        OperatorForecast(
            op, n, _treatment(op, refused, library), {**library, **refused}.get(op, "")
        )
        for op, n in sorted(counts.items(), key=lambda item: -item[1])
    )
    env = loaded.program.env
    return Forecast(
        loaded.name,
        operators,
        {s.name: (s.low, s.high) for s in env.symbols},
        sum(c.nbytes for c in loaded.program.constants.values()),
        None if after is None else intermediate_bytes(after),
        {s.name: (env if after is None else after.env).of(s.name).hint for s in env.symbols},
    )


def _library_reason(binding: Binding) -> tuple[str, str]:
    """Return the operator of a library call and the reason why it has no kernel."""
    call = binding.library_call
    if not all(map(is_known, binding.reads)):
        return call.function, "the shapes of its operands are unknown before the run"
    if not all(map(is_known, binding.vars)):
        return call.function, "the shape of its result depends on the values of the run"
    form = "this form of it" if call.function in RECORDS else "it"
    return call.function, f"{form} has no kernel rule"


def _treatment(op: str, refused: dict[str, str], library: dict[str, str]) -> str:
    if op in refused:
        return "unsupported"
    return "library call" if op in library else "compiled"


def intermediate_bytes(program: Program) -> int:
    """Return the bytes of every value that a kernel computes, under the hints."""
    env = program.env
    total = 0
    for b in program.kernel_calls:
        for v in b.vars:
            if isinstance(v.type, Tensor) and v.type.is_known:
                total += env.hint(v.type.bytes)
    return total
