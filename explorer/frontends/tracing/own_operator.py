"""User-defined operators as functions over arrays and traced values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.frontends.tracing.emit import emit
from explorer.frontends.tracing.operation import operation
from explorer.frontends.tracing.promote import traced
from explorer.ops import RECORDS
from explorer.ops.record import OperatorRecord
from explorer.ops.user_operators import register


def operator(record: OperatorRecord, domain: str = "") -> Callable[..., Any]:
    """Register an operator of one result and return its function.

    On arrays the function runs the record's reference; in a traced function it emits one operator.
    ONNX files name the operator in `domain`. A later registration of the same name replaces it.

    Raises:
        BadOption: it is not a record, or has the name of an ONNX operator. Faults of its rules
            raise BadOperator when the rules are used.
    """
    register(record, domain)
    name = record.name

    def eager(*args: Any, **attrs: Any) -> Any:
        arrays = [None if a is None else np.asarray(a) for a in args]
        with np.errstate(all="ignore"):
            return RECORDS[name].reference(attrs, arrays)

    def recorded(*args: Any, **attrs: Any) -> Any:
        return emit(name, *(None if a is None else traced(a) for a in args), **attrs)

    recorded.__name__ = recorded.__qualname__ = name
    recorded.__doc__ = f"The operator {name}."
    return operation(eager)(recorded)
