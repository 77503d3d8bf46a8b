"""Values of the symbols from the shapes of the inputs, or the input that is wrong."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from explorer.errors import MissingInput, UnknownInput
from explorer.ir.calls import Var
from explorer.ir.program import Program
from explorer.ir.shapes.dims import Sizes
from explorer.ops.reference.frame import CallFrame
from explorer.ops.reference.shape_heap import heap_of


def bind_sizes(
    program: Program, inputs: Mapping[str, np.ndarray], preset: Sizes | None = None
) -> dict[str, int]:
    """Return the value of each symbol, from the shapes of the inputs.

    `preset` are symbols known before. Raises MissingInput, UnknownInput, DtypeError, ShapeError or
    BoundError, naming the input.
    """
    params = program.main.params
    names = {p.name for p in params}
    for name in inputs:
        if name not in names:
            raise UnknownInput(
                f"there is no input {name!r}; the inputs are {_names(params)}",
                where=name,
                expected=_names(params),
            )
    for param in params:
        if param.name not in inputs:
            raise MissingInput(f"the input {param.name!r} is missing", where=param.name)
    frame = CallFrame(heap_of(program.main, program.env, preset or (), inputs=True), preset or {})
    frame.enter([inputs[p.name] for p in params])
    return frame.sizes


def _names(params: tuple[Var, ...]) -> str:
    return ", ".join(repr(p.name) for p in params)
