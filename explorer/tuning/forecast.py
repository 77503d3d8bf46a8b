"""What would happen to a model, before anything does: operators, kernels, memory."""

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
from explorer.relax.deduction.known import is_known


@dataclass(frozen=True, slots=True)
class OperatorForecast:
    """All operators of one type: how many there are, and what becomes of them."""

    op: str
    count: int
    becomes: str  # "compiled", "library call" or "unsupported"
    reason: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Forecast(Printed):
    """What compiling would do. `hints`: the sizes of symbols that tiles would be chosen for; bytes
    are under them: intermediates side by side.
    """

    model: str
    operators: tuple[OperatorForecast, ...]
    symbols: dict[str, tuple[int, int | None]]
    weight_bytes: int
    intermediate_bytes: int | None
    hints: dict[str, int]

    @property
    def supported(self) -> bool:
        """Whether each operator has a kernel or a library call; no kernel is made to see that."""
        return all(o.becomes != "unsupported" for o in self.operators)

    def __str__(self) -> str:
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


def verdict(found: Forecast) -> str:
    """Return the answer in words; that every operator is supported promises no more."""
    return "every operator is supported" if found.supported else "does not compile"


def check(model: Any) -> Forecast:
    """What would become of each operator, and how much memory it would take; nothing is compiled.

    Raises BadModelFile where the file cannot be read.
    """
    given = model if isinstance(model, Model) else load(model)
    counts = Counter(
        b.expr.op for f in given.program.functions for b in f.body if isinstance(b.expr, OpCall)
    )
    refused: dict[str, str] = {}
    library: dict[str, str] = {}
    after: Program | None = None
    try:
        after = legalize(deduce(given.program))
        library = dict(map(_left_to_a_library, after.library_calls))
    except UnsupportedOperator as error:
        name = next((op for op in counts if op in error.sentence.split()), "")
        refused[name or next(iter(counts), "")] = error.sentence
    operators = tuple(
        OperatorForecast(op, n, _becomes(op, refused, library), {**library, **refused}.get(op, ""))
        for op, n in sorted(counts.items(), key=lambda item: -item[1])
    )
    env = given.program.env
    return Forecast(
        given.name,
        operators,
        {s.name: (s.low, s.high) for s in env.symbols},
        sum(c.array.nbytes for c in given.program.constants.values()),
        None if after is None else intermediate_bytes(after),
        {s.name: (env if after is None else after.env).of(s.name).hint for s in env.symbols},
    )


def _left_to_a_library(binding: Binding) -> tuple[str, str]:
    """The operator of a library call, and why it has no kernel."""
    call = binding.library_call
    if not all(map(is_known, binding.reads)):
        return call.function, "the shape of what it reads is not known before the run"
    if not all(map(is_known, binding.vars)):
        return call.function, "the shape of its result depends on the values of the run"
    form = "this form of it" if call.function in RECORDS else "it"
    return call.function, f"{form} has no kernel rule"


def _becomes(op: str, refused: dict[str, str], library: dict[str, str]) -> str:
    if op in refused:
        return "unsupported"
    return "library call" if op in library else "compiled"


def intermediate_bytes(program: Program) -> int:
    """The bytes under the hints of every value that a kernel makes."""
    env = program.env
    total = 0
    for b in program.kernel_calls:
        for v in b.vars:
            if isinstance(v.type, Tensor) and v.type.is_known:
                total += env.hint(v.type.bytes)
    return total
