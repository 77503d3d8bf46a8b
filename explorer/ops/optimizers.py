"""Optimizer steps (ai.onnx.preview.training): the new values of parameters and moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from explorer.errors import DtypeError
from explorer.ir.calls import Var
from explorer.ir.kernel import Const, Expr, at
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS
from explorer.ir.types import DType, Tensor
from explorer.ops.elementwise import F, call, of_expressions
from explorer.ops.lowering import Lowering, letters, shape_of
from explorer.ops.record import OperatorRecord, Site
from explorer.ops.shape_rules import demand_shape

Number = Callable[[str, float], float]
Keep = Callable[[int, Any], Any]  # stores a result, by number, and returns it for further use
Step = Callable[[F, Number, Keep, str, Any, Any, Sequence[Any]], None]


def _regular(f: F, number: Number, values: Sequence[Any]) -> Any:
    """Return the gradient with the L2 regularisation of the parameter."""
    x, g = values[:2]
    return f("add", f("mul", x, number("norm_coefficient", 0.0)), g)


def _adagrad(
    f: F, number: Number, keep: Keep, mode: str, rate: Any, t: Any, values: Sequence[Any]
) -> None:
    x, _, h = values
    slow = f("add", f("mul", t, number("decay_factor", 0.0)), 1.0)
    g = _regular(f, number, values)
    total = keep(1, f("add", h, f("mul", g, g)))
    size = f("add", f("sqrt", total), number("epsilon", 1e-6))
    keep(0, f("sub", x, f("div", f("mul", f("div", rate, slow), g), size)))


def _adam(
    f: F, number: Number, keep: Keep, mode: str, rate: Any, t: Any, values: Sequence[Any]
) -> None:
    x, _, v, h = values
    alpha, beta = number("alpha", 0.9), number("beta", 0.999)
    g = _regular(f, number, values)
    mean = keep(1, f("add", f("mul", v, alpha), f("mul", g, 1 - alpha)))
    square = keep(2, f("add", f("mul", h, beta), f("mul", f("mul", g, g), 1 - beta)))
    size = f("add", f("sqrt", square), number("epsilon", 1e-6))
    correction = f("sqrt", f("sub", 1.0, f("pow", beta, t)))
    grown = f("div", f("mul", rate, correction), f("sub", 1.0, f("pow", alpha, t)))
    rate = f("where", f("gt", t, 0.0), grown, rate)
    moved = f("sub", x, f("div", f("mul", rate, mean), size))
    keep(0, f("mul", moved, 1 - number("norm_coefficient_post", 0.0)))


def _momentum(
    f: F, number: Number, keep: Keep, mode: str, rate: Any, t: Any, values: Sequence[Any]
) -> None:
    x, _, v = values
    alpha = number("alpha", 0.0)
    g = _regular(f, number, values)
    beta = f("where", f("gt", t, 0.0), number("beta", 0.0), 1.0)
    new = keep(1, f("add", f("mul", v, alpha), f("mul", beta, g)))
    direction = f("add", g, f("mul", new, alpha)) if mode == "nesterov" else new
    keep(0, f("sub", x, f("mul", rate, direction)))


def _count(site: Site, kinds: int) -> int:
    """Return the number of parameters of a step; each has `kinds` arguments."""
    arguments = len(site.args) - 2
    if arguments < kinds or arguments % kinds or any(a is None for a in site.args):
        site.fail(
            f"{arguments} values are not a multiple of {kinds}, the number for each parameter"
        )
    return arguments // kinds


def _values(args: Sequence[Any], which: int, count: int, kinds: int) -> list[Any]:
    return [args[2 + kind * count + which] for kind in range(kinds)]


def _record(name: str, step: Step, kinds: int) -> OperatorRecord:
    """Return a record with `kinds` arguments for each parameter: itself, its gradient, moments."""

    def types(site: Site) -> tuple[Tensor, ...]:
        count = _count(site, kinds)
        for i in range(2, len(site.args)):
            like = 2 + (i - 2) % count
            demand_shape(site, i, site.shape(like), f"argument {i}")
            if site.dtype(i) != site.dtype(like):
                site.fail(
                    f"argument {i} is {site.dtype(i)}, and its parameter {site.dtype(like)}",
                    DtypeError,
                    expected=site.dtype(like),
                )
        results = [k for k in range(kinds) if k != 1]
        return tuple(site.tensor(2 + k * count + i) for k in results for i in range(count))

    def lower(low: Lowering) -> None:
        site = low.site
        count = _count(site, kinds)
        for which in range(count):
            _lower_one(low, step, which, count, kinds)

    def reference(attrs: Mapping[str, Any], args: Any) -> Any:
        count = (len(args) - 2) // kinds
        outputs: dict[tuple[int, int], Any] = {}
        for which in range(count):

            def keep(part: int, value: Any, which: int = which) -> Any:
                outputs[part, which] = np.asarray(value, args[2].dtype)
                return value

            values = _values(args, which, count, kinds)
            step(_numpy, attrs.get, keep, attrs.get("mode", ""), args[0], args[1], values)
        return tuple(value for _, value in sorted(outputs.items()))

    return OperatorRecord(name, "elementwise", types, reference, lower, first=1)


def _numpy(op: str, *args: Any) -> Any:
    return SCALAR_FUNCTIONS[op].numpy(*args)


def _lower_one(low: Lowering, step: Step, which: int, count: int, kinds: int) -> None:
    """Lower one parameter: its new value and those of its moments, by one kernel."""
    site, nest = low.site, low.nest(low.site.op.lower())
    if shape_of(site.arg(0)) or shape_of(site.arg(1)):
        site.unsupported("a rate or a count that is not a scalar")
    values, outputs = _values(site.args, which, count, kinds), dict[int, Var]()
    for part, result in enumerate(low.results[which::count]):
        if low.is_read(result.name):
            outputs[part] = result
    if not outputs:
        return
    dtype, shape = site.dtype(2 + which), shape_of(values[0])
    axes = letters(shape)

    def keep(part: int, value: Expr) -> Expr:
        if part not in outputs:
            return value
        nest.compute(f"y{part}", shape, dtype, axes, value)
        return at(f"y{part}", axes)

    rate, time = (
        _cast(nest.load(site.arg(i), n, ()), site.dtype(i), dtype)
        for i, n in enumerate(("rate", "time"))
    )
    elements = [nest.along(v, f"v{i}", axes) for i, v in enumerate(values)]
    step(of_expressions(dtype), site.number, keep, site.text("mode", ""), rate, time, elements)
    nest.bind_outputs({f"y{part}": result for part, result in outputs.items()})


def _cast(value: Expr, source: DType, dtype: DType) -> Expr:
    if isinstance(value, Const):
        return Const(value.value, dtype)
    return value if source == dtype else call(f"cast_{dtype}", value)


RECORDS = (
    _record("Adagrad", _adagrad, 3),
    _record("Adam", _adam, 4),
    _record("Momentum", _momentum, 3),
)
