"""An operator of the user's own, as a function over arrays and over traced values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.operation import operation
from explorer.frontends.tracing.promote import traced
from explorer.ops import RECORDS
from explorer.ops.own_operators import register
from explorer.ops.record import OperatorRecord


def operator(record: OperatorRecord, domain: str = "") -> Callable[..., Any]:
    """Make an operator of one result known, and give the function that stands for it: on arrays its
    reference, in a traced function one operator. In ONNX files it is known under its name in
    `domain`. Registered again, under the same name, the later one takes the first one's place.

    Raises BadOption where it is no record, or has the name of one of ONNX's; what its rules do
    wrong is a BadOperator when they are asked.
    """
    register(record, domain)
    name = record.name

    def eager(*args: Any, **attrs: Any) -> Any:
        given = [None if a is None else np.asarray(a) for a in args]
        with np.errstate(all="ignore"):
            return RECORDS[name].reference(attrs, given)

    def recorded(*args: Any, **attrs: Any) -> Any:
        return emit(name, *(None if a is None else traced(a) for a in args), **attrs)

    recorded.__name__ = recorded.__qualname__ = name
    recorded.__doc__ = f"The operator {name}."
    return operation(eager)(recorded)
