"""Exercises on operators: shape rule (chapter 01), lowering (07), backward rule (11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from random import Random
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, Wrong, require
from explorer.course.plain_values import decode, encode
from explorer.course.replay import (
    Replay,
    receive_dims,
    receive_model,
    send_dims,
    send_model,
    send_program,
)
from explorer.errors import ShapeError
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.frontends.python.tracing.operation import operator
from explorer.ir.calls import OpCall
from explorer.ir.dims import Dim, evaluate_dim
from explorer.ir.program import Program
from explorer.ir.types import Tensor
from explorer.ops import user_operators
from explorer.ops.elementwise import call, unary
from explorer.ops.record import OperatorRecord
from explorer.process.counters import counters

COMPILED = 4  # programs in memory that the checks of an answer share; chosen


def _window_count(n: int, size: int, step: int) -> int:
    return (n - size) // step + 1


SMALL_WINDOWS = [(size, step) for size in range(1, 6) for step in range(1, 5)]
LARGER_WINDOWS = [(size, step) for size in range(1, 16) for step in range(5, 16)]


def _record_dims(answer: Any, cases: list[tuple[int, int]]) -> list[list[str]] | str:
    """Return the dims of windows of [rows, n] by size and step, or the sentence of a ShapeError."""
    traced = trace(lambda x: tuple(enp.exp(answer(x, size=n, step=step)) for n, step in cases))
    try:
        model = load(traced(tensor("float32", "rows", "n")))
        c = compile(model, options=Options(registered=False), until="typed")
    except ShapeError as problem:
        return problem.sentence
    body = c.program.main.body
    windows = [b for b in body if isinstance(b.expr, OpCall) and b.expr.op == "Windows"]
    return [send_dims(b.var.tensor.dims) for b in windows]


def _dims(answer: Any, cases: list[tuple[int, int]]) -> list[tuple[Dim, ...]]:
    """Return the annotated dims of each case."""
    sent = answer.run(_record_dims, cases)
    is_refused = isinstance(sent, str)
    require(not is_refused, f"windows of these sizes and steps are refused, {cases}: {sent}")
    is_valid = isinstance(sent, list) and len(sent) == len(cases)
    require(is_valid, f"{len(cases)} annotations are wanted, for {cases}")
    return [receive_dims(dims) for dims in sent]


def _check_small_windows(answer: Any, seed: int) -> None:
    """Check the annotation for all small sizes and steps, at lengths of every remainder."""
    _check_annotation(answer, SMALL_WINDOWS, range(5))


def _check_larger_windows(answer: Any, seed: int) -> None:
    rng = Random(seed)
    cases = rng.sample(LARGER_WINDOWS, 6)
    _check_annotation(answer, cases, (0, 1, *rng.sample(range(2, 60), 4)))


def _check_annotation(
    answer: Any, cases: list[tuple[int, int]], longer: Sequence[int], rows: int = 3
) -> None:
    """Check the annotation of rows that are longer than a window by so many elements."""
    for (size, step), dims in zip(cases, _dims(answer, cases), strict=True):
        for n in (size + more for more in longer):
            annotated = tuple(evaluate_dim(d, {"rows": rows, "n": n}) for d in dims)
            expected = (rows, _window_count(n, size, step), size)
            if annotated != expected:
                raise Wrong(
                    f"windows of {size} with step {step} of [rows, n] are annotated {list(dims)}: "
                    f"{list(annotated)} for rows = {rows}, n = {n}, and there are {list(expected)}"
                )


@lru_cache(maxsize=COMPILED)
def _replay_windows(dims: tuple[Dim, ...], size: int, step: int) -> Any:
    """Compile windows whose shape rule returns the dims of an answer."""
    space: dict[str, Any] = {}
    exec(_WINDOWS_IMPORTS + _WINDOWS_RULES, space)  # the part of the stub that is not the answer

    def deduce(site: Any) -> tuple[Tensor, ...]:
        return (Tensor(dims, site.dtype()),)

    record = OperatorRecord("GradedWindows", "layout", deduce, space["reference"], space["lower"])
    with graded_operator(record) as windows:
        model = trace(lambda x: enp.exp(windows(x, size=size, step=step)))(
            tensor("float32", "rows", "n")
        )
        return compile(load(model), options=Options(registered=False))


@contextmanager
def graded_operator(record: OperatorRecord) -> Iterator[Any]:
    """Register an operator of a check for as long as the check needs it."""
    yield operator(record, domain="course")
    user_operators.forget(record.name)


def _check_one_compilation(answer: Any, seed: int) -> None:
    size, step = 4, 3
    c = _replay_windows(_dims(answer, [(size, step)])[0], size, step)
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
        refusal = answer.run(_record_dims, [(size, step)])
        require(isinstance(refusal, str), f"windows of {size} with step {step} are no ShapeError")


_WINDOWS_RULES = '''\
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
'''
_WINDOWS_REST = f"""\
{_WINDOWS_RULES}

record = OperatorRecord("Windows", "layout", deduce, reference, lower)
windows = explorer.operator(record, domain="course")
"""
_WINDOWS_IMPORTS = """\
import numpy as np

import explorer
from explorer.ir.affine import var
from explorer.ir.dims import floor_div
from explorer.ir.kernel import Read
from explorer.ir.types import Tensor
from explorer.ops.record import OperatorRecord


"""
_WINDOWS_HEAD = f'''\
{_WINDOWS_IMPORTS}\
def deduce(site):
    """[rows, n] becomes [rows, windows, size]; `site.fail(why)` where size or step is below 1."""
'''

WINDOWS = Exercise(
    name="windows",
    chapter="01_graphs",
    title="The shape rule of an operator",
    goal="`windows(x, size=3, step=2)` cuts every row of `x` into windows of three elements; "
    "each window starts two elements after the previous one. Elements left over at the end "
    "are dropped. The reference and the loop nest are given; write the shape rule, "
    "`deduce(site)`. `site.integer('size')` is an attribute. `rows, n = site.shape()` are "
    "dims: numbers or symbols, with the same arithmetic. An operator may have several results, "
    "so the rule returns a tuple: here of one annotation, `Tensor(dims, site.dtype())`.",
    answer="windows",
    stub=_WINDOWS_HEAD + "    raise NotImplementedError\n\n\n" + _WINDOWS_REST,
    solution=_WINDOWS_HEAD
    + """\
    size, step = site.integer("size"), site.integer("step")
    if size < 1 or step < 1:
        site.fail("size and step are 1 or more")
    rows, n = site.shape()
    return (Tensor((rows, floor_div(n - size, step) + 1, size), site.dtype()),)


"""
    + _WINDOWS_REST,
    hints=(
        "`return (Tensor((rows, windows, size), site.dtype()),)`: a tuple of one annotation.",
        "How many steps fit after the first window? There is one window more than steps.",
        "`floor_div(dim, number)` divides a dim, which may be symbolic, and rounds down.",
    ),
    checks=(
        Check("the annotation, for every n", 2, _check_small_windows),
        Check("one compilation serves every n", 1, _check_one_compilation),
        Check("no windows of 0, no step of 0", 1, _check_refusals),
        Check("other sizes and steps", 1, _check_larger_windows, True),
    ),
    exit_question="If n is less than size, the formula gives 0 or less. Who can detect this, and "
    "when?",
)


SHAPES = ((3, 4), (1, 1), (5, 33))


def _expected(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return np.asarray(wide * np.clip(wide + 3, 0, 6) / 6)


LOWERED = "legalise to kernels"  # the step that turns operators into loops


def _after_product(operator_: Any) -> Any:
    return load(
        trace(lambda x, w: operator_(x @ w))(
            tensor("float32", "n", "m"), tensor("float32", "m", "m")
        )
    )


def _record_loops(answer: Any) -> Any:
    """Return the loops of the answer behind a product."""
    c = compile(_after_product(answer), options=Options(registered=False), until="legalized")
    sources = len(c.program.sources)
    require(sources == 2, f"the answer is {sources - 1} operators, and must be one")
    return send_program(next(s.after for s in c.snapshots if s.name == LOWERED))


def _trusted_body(site: Any, x: Any, dtype: Any) -> Any:
    clipped = call("min", call("max", call("add", x, 3.0, dtype=dtype), 0.0), 6.0, dtype=dtype)
    return call("mul", call("mul", x, clipped), 1 / 6, dtype=dtype)


def _trusted_reference(attributes: Any, arrays: Any) -> np.ndarray:
    return _expected(arrays[0]).astype(arrays[0].dtype)


def _compile_operator(answer: Any, check: bool = False) -> Any:
    """Compile an operator whose loops are those of the answer, behind a product."""
    return _compile_loops(encode(answer.run(_record_loops)), check)


@lru_cache(maxsize=COMPILED)
def _compile_loops(sent: bytes, check: bool) -> Any:
    """Compile the operator of a text; its checks differ in inputs alone."""
    loops = Replay(decode(sent))
    options = Options(passes=((LOWERED, loops),), registered=False)
    with graded_operator(unary("GradedSwish", _trusted_body, _trusted_reference)) as swish:
        return compile(_after_product(swish), options=options, check=check)


def _check_random_values(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    c = _compile_operator(answer)
    for rows, columns in SHAPES:
        x = (4 * rng.normal(size=(rows, columns))).astype(np.float32)
        eye = np.eye(columns, dtype=np.float32)
        got = next(iter(c.run(dict(zip(c.model.inputs, (x, eye)))).values()))
        off = float(np.abs(got - _expected(x)).max(initial=0.0))
        require(off < 1e-4, f"[{rows}, {columns}]: off by {off:.2g}")


def _check_edges(answer: Any, seed: int) -> None:
    x = np.array([[-4, -3, -1.5, 0, 3, 4]], np.float32)
    c = _compile_operator(answer)
    got = next(iter(c.run(dict(zip(c.model.inputs, (x, np.eye(6, dtype=np.float32))))).values()))
    off = np.abs(got - _expected(x))[0]
    require(off.max() < 1e-5, f"at x = {x[0, off.argmax()]:g} it is {got[0, off.argmax()]:g}")


def _check_fusion(answer: Any, seed: int) -> None:
    c = _compile_operator(answer, check=True)
    wrong = [f"{s.name}: {s.checked}" for s in c.snapshots if isinstance(s.checked, str)]
    require(not wrong, f"its loops are not hard_swish: {'; '.join(wrong)}")
    x = (4 * np.random.default_rng(seed).normal(size=(7, 9))).astype(np.float32)
    got = answer(x)
    is_like = isinstance(got, np.ndarray) and (got.shape, got.dtype) == (x.shape, x.dtype)
    require(is_like, "its reference returns another dtype or shape than that of its argument")
    off = float(np.abs(got - _expected(x)).max())
    require(off < 1e-4, f"its reference and its loops differ: by {off:.2g}")
    count = len(c.program.kernel_calls)
    require(count == 1, f"{count} kernels, and it can be one with the product before it")


OWN_OPERATOR = Exercise(
    name="own_operator",
    chapter="07_code_generation",
    title="Your operator, down to the loops",
    goal="Write the operator `hard_swish`, x * min(max(x + 3, 0), 6) / 6 (Howard et al. 2019): "
    "its NumPy reference, and the expression of one element for the loops. It is then fused, "
    "tiled and scheduled like any other operator.",
    answer="hard_swish",
    stub='''\
import numpy as np

import explorer
from explorer.ops.elementwise import call, unary


def body(site, x, dtype):
    """Return the expression of one element: `call("add", x, 3.0, dtype=dtype)` and its like."""
    raise NotImplementedError


def in_numpy(attributes, arrays):
    """Compute the same on whole arrays."""
    raise NotImplementedError


hard_swish = explorer.operator(unary("HardSwish6", body, in_numpy), domain="course")
''',
    solution='''\
import numpy as np

import explorer
from explorer.ops.elementwise import call, unary


def body(site, x, dtype):
    """Return the expression of one element: `call("add", x, 3.0, dtype=dtype)` and its like."""
    shifted = call("add", x, 3.0, dtype=dtype)
    clipped = call("min", call("max", shifted, 0.0, dtype=dtype), 6.0, dtype=dtype)
    return call("mul", call("mul", x, clipped), 1 / 6, dtype=dtype)


def in_numpy(attributes, arrays):
    """Compute the same on whole arrays."""
    (x,) = arrays
    return (x * np.clip(x + 3, 0, 6) / 6).astype(x.dtype)


hard_swish = explorer.operator(unary("HardSwish6", body, in_numpy), domain="course")
''',
    hints=(
        "Squareplus in section 7 has the same form.",
        "The functions are 'add', 'max', 'min' and 'mul'; pass the dtype where both are numbers.",
        "The result of `in_numpy` must have the dtype of its argument.",
    ),
    checks=(
        Check("where its pieces meet", 1, _check_edges),
        Check("random values and odd shapes", 2, _check_random_values),
        Check("reference and loops agree, in one kernel with a product", 2, _check_fusion),
        Check("other values", 1, lambda answer, seed: _check_random_values(answer, seed + 1), True),
    ),
    exit_question="Why does the compiler need no rule that allows it to fuse this operator?",
)


def _loss(x: np.ndarray, g: np.ndarray) -> float:
    shifted = x - x.max(-1, keepdims=True)
    e = np.exp(shifted)
    return float((e / e.sum(-1, keepdims=True) * g).sum())


def _finite_differences(x: np.ndarray, g: np.ndarray, step: float = 1e-6) -> np.ndarray:
    gradient = np.zeros_like(x)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        gradient[at] = (_loss(up, g) - _loss(down, g)) / (2 * step)
    return gradient


def _check_gradient(c: Any, x: np.ndarray, g: np.ndarray) -> None:
    got = _gradient(c, x, g)
    require(got.shape == x.shape, f"the gradient is {got.shape}, and x is {x.shape}")
    off = float(np.abs(got - _finite_differences(x, g)).max())
    require(off < 1e-4, f"x of shape {x.shape}: off by {off:.2g} from finite differences")


def _gradient(c: Any, x: np.ndarray, g: np.ndarray) -> np.ndarray:
    return np.asarray(next(iter(c.run(x.astype(np.float32), g.astype(np.float32)).values())))


def _record_model(answer: Any) -> Any:
    return send_model(load(answer))


def _like(x: Any, g: Any) -> Any:
    return x


def _compiled(answer: Any, until: str = "emitted") -> Any:
    """Compile the program of an answer."""
    return _compiled_program(encode(answer.run(_record_model)), until)


@lru_cache(maxsize=COMPILED)
def _compiled_program(sent: bytes, until: str) -> Any:
    """Compile the program of a text; its checks differ in inputs alone."""
    like = trace(_like)(tensor("float32", "rows", "n"), tensor("float32", "rows", "n"))
    model = receive_model(decode(sent), load(like))
    return compile(model, options=Options(registered=False), until=until)


def _check_one_row(answer: Any, seed: int) -> None:
    c = _compiled(answer)
    _check_gradient(c, np.array([[0.0, 1.0, -1.0]]), np.array([[1.0, 0.0, 0.0]]))


def _check_random_rows(answer: Any, seed: int) -> None:
    c = _compiled(answer)
    rng = np.random.default_rng(seed)
    for shape in ((1, 1), (2, 3), (4, 7)):
        _check_gradient(c, rng.normal(size=shape), rng.normal(size=shape))


def _check_large_values(answer: Any, seed: int) -> None:
    """Check large values, and rows that are so far apart that each needs a largest of its own."""
    c = _compiled(answer)
    x = np.array([[1000.0, 999.0, -1000.0], [-999.0, -1000.0, -998.0]])
    g = np.array([[1.0, -1.0, 2.0], [-1.0, 2.0, 1.0]])
    got = _gradient(c, x, g)
    is_finite = bool(np.isfinite(got).all())
    require(is_finite, f"for x = {x.tolist()} it gives {got.tolist()}")
    _check_gradient(c, x, g)


def _check_work(answer: Any, seed: int) -> None:
    """Check the gradient, and that rows of twice the length take at most twice the work."""
    _check_one_row(answer, 0)
    program = _compiled(answer, "planned").program
    rows, n = map(str, program.main.params[0].tensor.dims)
    once, twice = (_points(program, {rows: 3, n: long}) for long in (64, 128))
    require(
        twice <= 2 * once,
        f"the innermost lines run {once:,} times for rows of 64 and {twice:,} times for rows of "
        "128: more than twice as often",
    )


def _points(program: Program, sizes: dict[str, int]) -> int:
    """Return how often the innermost line of any loop nest runs."""
    return sum(
        prod(evaluate_dim(a.extent, sizes) for a in (*c.axes, *c.reduce))
        for call in program.kernel_calls
        for c in call.kernel_call.kernel.computes
    )


VJP = Exercise(
    name="vjp",
    chapter="11_training",
    title="The backward rule of softmax",
    goal="Write `softmax_vjp(x, g)` as a program. For y = softmax(x) along the last axis and a "
    "gradient g of y, it returns the gradient of x. Rows of twice the length must not take "
    "more than twice the work, and large x must not overflow. Write the rule itself: grading "
    "accepts no call of `explorer.grad` or `explorer.vjp`. It is compiled like any other "
    "program, for every size: `widgets.explore(softmax_vjp)` shows which of your operators "
    "became one kernel.",
    answer="softmax_vjp",
    stub='''\
import explorer
from explorer import np as enp
from explorer import tensor


@explorer.trace
def softmax_vjp(x: tensor("float32", "rows", "n"), g: tensor("float32", "rows", "n")):
    """Return the gradient of x, where g is that of y = softmax(x) along the last axis."""
    raise NotImplementedError
''',
    solution='''\
import explorer
from explorer import np as enp
from explorer import tensor


@explorer.trace
def softmax_vjp(x: tensor("float32", "rows", "n"), g: tensor("float32", "rows", "n")):
    """Return the gradient of x, where g is that of y = softmax(x) along the last axis."""
    e = enp.exp(x - x.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    return y * (g - (g * y).sum(axis=-1, keepdims=True))
''',
    hints=(
        "dy_i / dx_j is y_i * ([i = j] - y_j).",
        "Multiply by g_i and sum over i. This gives two terms, and the second one contains one "
        "number per row.",
        "First subtract from each row its largest x: softmax does not change.",
    ),
    checks=(
        Check("one row by finite differences", 1, _check_one_row),
        Check("random rows by finite differences", 1, _check_random_rows),
        Check("large values", 1, _check_large_values),
        Check("work that grows as x does", 1, _check_work),
        Check("other rows", 1, lambda answer, seed: _check_random_rows(answer, seed + 1), True),
    ),
    exit_question="Which value of the forward pass must be kept for this, x or y?",
    own_answers=tuple(f"explorer.gradients:{name}" for name in ("grad", "value_and_grad", "vjp")),
)
