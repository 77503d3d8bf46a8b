"""Exercise: a user's operator, lowered to loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.compiler import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.frontends.load import load
from explorer.frontends.trace import trace
from explorer.frontends.tracing.annotations import tensor
from explorer.options import Options

SHAPES = ((3, 4), (1, 1), (5, 33))


def _expected(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return np.asarray(wide * np.clip(wide + 3, 0, 6) / 6)


def _compiled(answer: Any, check: bool = False) -> Any:
    model = trace(lambda x, w: answer(x @ w))(
        tensor("float32", "n", "m"), tensor("float32", "m", "m")
    )
    return compile(load(model), options=Options(registered=False), check=check)


def _check_random_values(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    c = _compiled(answer)
    for rows, columns in SHAPES:
        x = (4 * rng.normal(size=(rows, columns))).astype(np.float32)
        eye = np.eye(columns, dtype=np.float32)
        got = next(iter(c.run(dict(zip(c.model.inputs, (x, eye)))).values()))
        off = float(np.abs(got - _expected(x)).max(initial=0.0))
        require(off < 1e-4, f"[{rows}, {columns}]: off by {off:.2g}")


def _check_edges(answer: Any, seed: int) -> None:
    x = np.array([[-4, -3, -1.5, 0, 3, 4]], np.float32)
    c = _compiled(answer)
    got = next(iter(c.run(dict(zip(c.model.inputs, (x, np.eye(6, dtype=np.float32))))).values()))
    off = np.abs(got - _expected(x))[0]
    require(off.max() < 1e-5, f"at x = {x[0, off.argmax()]:g} it is {got[0, off.argmax()]:g}")


def _check_fusion(answer: Any, seed: int) -> None:
    c = _compiled(answer, check=True)
    wrong = [f"{s.name}: {s.checked}" for s in c.snapshots if isinstance(s.checked, str)]
    require(not wrong, f"its reference and its loops differ: {'; '.join(wrong)}")
    count = len(c.program.kernel_calls)
    require(count == 1, f"{count} kernels, and it can be one with the product before it")


EXERCISE = Exercise(
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
from explorer.ops.arithmetic.elementwise import call, unary


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
from explorer.ops.arithmetic.elementwise import call, unary


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
        "The functions are 'add', 'max', 'min' and 'mul'; pass the dtype with every number.",
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
