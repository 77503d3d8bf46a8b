"""Exercise: the shape rule of an operator with symbolic sizes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler import compile
from explorer.counters import counters
from explorer.course.exercise import Check, Exercise, Wrong, require
from explorer.errors import ShapeError
from explorer.frontends.load import load
from explorer.frontends.trace import trace
from explorer.frontends.tracing.annotations import tensor
from explorer.ir.calls import OpCall
from explorer.ir.shapes.dims import evaluate_dim
from explorer.options import Options


def _window_count(n: int, size: int, step: int) -> int:
    return (n - size) // step + 1


def _compiled(answer: Any, size: int, step: int, until: str = "emitted") -> Any:
    model = trace(lambda x: enp.exp(answer(x, size=size, step=step)))(
        tensor("float32", "rows", "n")
    )
    return compile(load(model), options=Options(registered=False), until=until)


def _check_annotation(answer: Any, seed: int) -> None:
    rng = Random(seed)
    for _ in range(8):
        size, step = rng.randint(1, 5), rng.randint(1, 4)
        c = _compiled(answer, size, step, until="typed")
        body = c.program.main.body
        (windows,) = (b for b in body if isinstance(b.expr, OpCall) and b.expr.op == "Windows")
        dims = windows.var.tensor.dims
        for n in (size, size + 1, size + rng.randint(2, 30)):
            annotated = tuple(evaluate_dim(d, {"rows": 3, "n": n}) for d in dims)
            expected = (3, _window_count(n, size, step), size)
            require(
                annotated == expected,
                f"windows of {size} with step {step} of [rows, n] are annotated {list(dims)}: "
                f"{list(annotated)} for rows = 3, n = {n}, and there are {list(expected)}",
            )


def _check_one_compilation(answer: Any, seed: int) -> None:
    size, step = 4, 3
    c = _compiled(answer, size, step)
    rng = np.random.default_rng(seed)
    c.run(np.zeros((1, size), np.float32))
    with counters.delta() as did:
        for n in (4, 6, 7, 31):
            x = rng.normal(size=(2, n)).astype(np.float32)
            result = next(iter(c.run(x).values()))
            expected = np.exp(np.lib.stride_tricks.sliding_window_view(x, size, axis=1)[:, ::step])
            require(
                result.shape == expected.shape and bool(np.allclose(result, expected, rtol=1e-4)),
                f"a row of {n}: the result is {list(result.shape)}, "
                f"NumPy's is {list(expected.shape)}",
            )
    compiled = did.counts.kernel_compiles
    require(compiled == 0, f"{compiled} kernels were compiled for other lengths")


def _check_refusals(answer: Any, seed: int) -> None:
    for size, step in ((0, 1), (3, 0)):
        try:
            _compiled(answer, size, step, until="typed")
        except ShapeError:
            continue
        raise Wrong(f"windows of {size} with step {step} are no ShapeError")


_REST = '''\
def reference(attributes, arrays):
    """Evaluate the operator with NumPy."""
    size, step = attributes["size"], attributes["step"]
    return np.lib.stride_tricks.sliding_window_view(arrays[0], size, axis=1)[:, ::step].copy()


def lower(low):
    """Lower to a loop nest: element [i, j, k] is x[i, j * step + k]."""
    nest, x, step = low.nest("windows"), low.site.arg(0), low.site.integer("step")
    nest.map(
        "y",
        low.result,
        lambda axes: Read(
            nest.tensor(x, "x"),
            (var(axes[0].name), var(axes[1].name) * step + var(axes[2].name)),
        ),
    )


record = OperatorRecord("Windows", "layout", deduce, reference, lower)
windows = explorer.operator(record, domain="course")
'''
_HEAD = '''\
import numpy as np

import explorer
from explorer.ir.affine import var
from explorer.ir.kernel import Read
from explorer.ir.shapes.dims import floor_div
from explorer.ir.types import Tensor
from explorer.ops.record import OperatorRecord


def deduce(site):
    """[rows, n] becomes [rows, windows, size]; `site.fail(why)` where size or step is below 1."""
'''

EXERCISE = Exercise(
    name="windows",
    chapter="01_graphs",
    title="The shape rule of an operator",
    goal="`windows(x, size=3, step=2)` cuts every row of `x` into windows of three elements; "
    "each window starts two elements after the previous one. Elements left over at the end "
    "are dropped. The reference and the loop nest are given; write the shape rule, "
    "`deduce(site)`. `site.integer('size')` is an attribute. `rows, n = site.shape()` are "
    "dims: numbers or symbols, with the same arithmetic.",
    answer="windows",
    stub=_HEAD + "    raise NotImplementedError\n\n\n" + _REST,
    solution=_HEAD
    + """\
    size, step = site.integer("size"), site.integer("step")
    if size < 1 or step < 1:
        site.fail("size and step are 1 or more")
    rows, n = site.shape()
    return (Tensor((rows, floor_div(n - size, step) + 1, size), site.dtype()),)


"""
    + _REST,
    hints=(
        "The result is a tuple of one `Tensor(dims, site.dtype())` with three dims.",
        "How many steps fit after the first window? There is one window more than steps.",
        "`floor_div(dim, number)` divides a dim, which may be symbolic, and rounds down.",
    ),
    checks=(
        Check("the annotation, for every n", 2, _check_annotation),
        Check("one compilation serves every n", 1, _check_one_compilation),
        Check("no windows of 0, no step of 0", 1, _check_refusals),
        Check("other sizes and steps", 1, lambda a, seed: _check_annotation(a, seed + 1), True),
    ),
    exit_question="If n is less than size, the formula gives 0 or less. Who can detect this, and "
    "when?",
)
