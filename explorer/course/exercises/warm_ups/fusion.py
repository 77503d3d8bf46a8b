"""Warm-ups of chapter 03."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np

import explorer.np as enp
from explorer.compiler.options import Options
from explorer.compiler.pipeline import compile
from explorer.course.exercise import Check, Exercise, require
from explorer.frontends.load import load
from explorer.frontends.python.trace import trace
from explorer.frontends.python.tracing.annotations import tensor
from explorer.process.user_code import shown


def _own(answer: Any) -> Any:
    """Return an answer that is a value."""
    return answer


def _check_saved_bytes(answer: Any, seed: int) -> None:
    draw = Random(seed)
    for readers in (2, 1, *(draw.randint(1, 5) for _ in range(18))):
        rows, columns = draw.randint(1, 300), draw.randint(1, 300)
        itemsize = draw.choice((1, 2, 4, 8))
        bytes_of_value = rows * columns * itemsize
        right = sum([bytes_of_value] + [bytes_of_value] * readers)
        got = answer(rows, columns, itemsize, readers)
        require(
            got == right,
            f"{rows} x {columns} elements of {itemsize} bytes with {readers} readers: {right:,} "
            f"bytes are saved, not {shown(got)}",
        )


_SAVED_BYTES = '''\
def saved_bytes(rows, columns, itemsize, readers):
    """Return the bytes that are not moved if one kernel computes a value and all its readers."""
    return {} * rows * columns * itemsize
'''

SAVED_BYTES = Exercise(
    name="saved_bytes",
    chapter="03_fusion",
    title="Bytes that stay on the chip",
    activity="fill in",
    minutes=3,
    goal="Without fusion a kernel writes a value of `rows` x `columns` elements to memory, and "
    "each of `readers` kernels reads all of it once. With fusion the value stays on the chip. "
    "Fill in the blank.",
    answer="saved_bytes",
    stub=_SAVED_BYTES.format("..."),
    solution=_SAVED_BYTES.format("(1 + readers)"),
    hints=("How often does the value cross between the chip and memory without fusion?",),
    checks=(Check("random values with one to five readers", 1, _check_saved_bytes),),
)


def _check_most_rows(answer: Any, seed: int) -> None:
    draw = Random(seed)
    _require_most_rows(answer, 40, 4, 72)
    for n in range(24):
        per_row, fixed = draw.randint(1, 64) * 4, draw.randint(0, 64) * 4
        limit = draw.randint(0, 9)
        spare = (0, draw.randint(0, per_row * 2**limit - 1))[n % 2]
        _require_most_rows(answer, fixed, per_row, fixed + per_row * 2**limit + spare)


def _require_most_rows(answer: Any, fixed: int, per_row: int, capacity: int) -> None:
    fitting = [r for r in (1 << k for k in range(20)) if fixed + r * per_row <= capacity]
    got = answer(fixed, per_row, capacity)
    require(
        got == fitting[-1] and not isinstance(got, bool),
        f"{fixed} bytes and {per_row} for each row, in {capacity}: {fitting[-1]} rows need "
        f"{fixed + fitting[-1] * per_row} bytes, and twice as many do not fit; not {shown(got)}",
    )


_MOST_ROWS = '''\
def most_rows(fixed, per_row, capacity):
    """Return the largest power of two of rows whose tile fits into the capacity, in bytes."""
    rows = 1
    while fixed + {} <= capacity:
        rows *= 2
    return rows
'''

MOST_ROWS = Exercise(
    name="most_rows",
    chapter="03_fusion",
    title="A tile that does not fit",
    activity="find the fault",
    minutes=6,
    goal="A tile holds `fixed` bytes, whatever its size, and `per_row` bytes for each of its rows. "
    "The function is to return the largest power of two of rows whose tile fits into `capacity` "
    "bytes; a tile of one row always fits. The tiles that it returns do not fit. Find the fault, "
    "and repair it.",
    answer="most_rows",
    stub=_MOST_ROWS.format("rows * per_row"),
    solution=_MOST_ROWS.format("2 * rows * per_row"),
    hints=(
        "Follow the loop for `fixed = 0`, `per_row = 4` and `capacity = 4`.",
        "When the loop ends, was it the last `rows` that fitted, or the one before?",
    ),
    checks=(Check("random tiles, half of which fill the capacity exactly", 2, _check_most_rows),),
)

# The keys are shown to students.
PROGRAMS: dict[str, Any] = {
    "enp.exp(x @ w)": lambda x, w: enp.exp(x @ w),
    "enp.exp(x) @ w": lambda x, w: enp.exp(x) @ w,
    "enp.tanh(enp.exp(x @ w)) @ w": lambda x, w: enp.tanh(enp.exp(x @ w)) @ w,
    "x - enp.mean(x, axis=-1, keepdims=True)": (
        lambda x, w: x - enp.mean(x, axis=-1, keepdims=True)
    ),
    "p = x @ w; enp.exp(p), enp.tanh(p)": lambda x, w: _two_readers(x @ w),
}


def _two_readers(value: Any) -> Any:
    return enp.exp(value), enp.tanh(value)


@cache
def _kernel_count(text: str) -> int:
    matrix = tensor("float32", 64, 64)
    model = load(trace(PROGRAMS[text])(matrix, matrix))
    c = compile(model, target="cpu-avx2", options=Options(registered=False), until="welded")
    return len(c.program.kernel_calls)


def _check_kernels_left(answer: Any, seed: int) -> None:
    table = answer.run(_own)
    require(isinstance(table, dict), f"kernels_left is {shown(table)}, and must be a dict")
    for text in PROGRAMS:
        stated, right = table.get(text), _kernel_count(text)
        if stated is None:
            raise NotImplementedError
        require(
            stated == right and not isinstance(stated, bool),
            f"{text}: the number of kernels is {right}, not {shown(stated)}",
        )


_KERNELS_LEFT = "kernels_left = {{  # program: kernels with fusion\n{}}}\n"
_COUNTS = (1, 2, 2, 1, 3)

KERNELS_LEFT = Exercise(
    name="kernels_left",
    chapter="03_fusion",
    title="What a policy leaves",
    activity="predict",
    minutes=8,
    goal="`x` and `w` are matrices of 64 x 64. The default policy fuses them for a CPU with AVX2. "
    "Predict how many kernels each program has. Ask of each value between two operators: who reads "
    "it, and how often is each of its elements read?",
    answer="kernels_left",
    stub=_KERNELS_LEFT.format("".join(f'    "{text}": ...,\n' for text in PROGRAMS)),
    solution=_KERNELS_LEFT.format(
        "".join(f'    "{text}": {count},\n' for text, count in zip(PROGRAMS, _COUNTS))
    ),
    hints=(
        "A product reads each element of its operands many times. The policy stores such an "
        "element rather than compute it for every read.",
        "A value that two kernels read must be stored.",
    ),
    checks=(Check("the kernels that the compiler counts", 2, _check_kernels_left),),
)


def _check_extend_softmax(answer: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    _require_running(answer, np.array([1.0, 2.0, 3.0, 0.0]), (2,))
    _require_running(answer, np.array([5.0, 1.0, 2.0]), (1,))
    _require_running(answer, np.array([1000.0, 1001.0, 999.0]), (1, 2))
    for scale in (1.0, 30.0, 1000.0):
        row = scale * rng.normal(size=int(rng.integers(2, 40)))
        cuts = sorted({int(n) for n in rng.integers(1, len(row), 3)})
        _require_running(answer, row, tuple(cuts))


def _require_running(answer: Any, row: np.ndarray, cuts: tuple[int, ...]) -> None:
    top, total, seen = -np.inf, 0.0, 0
    for block in np.split(row, cuts):
        got = answer(float(top), float(total), block)
        require(
            isinstance(got, tuple) and len(got) == 2 and all(np.ndim(v) == 0 for v in got),
            f"{shown(got)} is no pair of a maximum and a sum",
        )
        seen += len(block)
        right_top = float(row[:seen].max())
        right_total = float(np.exp(row[:seen] - right_top).sum())
        top, total = (float(v) for v in got)
        require(
            top == right_top and abs(total - right_total) <= 1e-9 * right_total,
            f"after {seen} elements the maximum and the sum are ({right_top:.4g}, "
            f"{right_total:.6g}), not ({top:.4g}, {total:.6g})",
        )


_EXTEND_SOFTMAX = '''\
import numpy as np


def extend_softmax(top, total, block):
    """Return (top, total) of a row after one more block of it."""
'''

EXTEND_SOFTMAX = Exercise(
    name="extend_softmax",
    chapter="03_fusion",
    title="One block of an online softmax",
    activity="write",
    minutes=15,
    goal="A softmax of a row needs its maximum `top`, and `total`, the sum of `exp(x - top)` over "
    "the row. A task reads the row block by block and keeps only these two numbers. Write "
    "`extend_softmax(top, total, block)`: it returns the pair for the row with this block, a NumPy "
    "array, appended. Before the first block `top` is minus infinity and `total` is 0. Elements "
    "may be in the thousands: no `exp` may overflow.",
    answer="extend_softmax",
    stub=_EXTEND_SOFTMAX + "    raise NotImplementedError\n",
    solution=_EXTEND_SOFTMAX
    + """\
    largest = max(top, float(block.max()))
    rescaled = total * np.exp(top - largest)
    return largest, float(rescaled + np.exp(block - largest).sum())
""",
    hints=(
        "The new maximum is the larger one of `top` and the maximum of the block.",
        "`total` is a sum of `exp(x - top)`. Which factor turns every term into "
        "`exp(x - largest)`?",
    ),
    checks=(Check("random rows in random blocks", 3, _check_extend_softmax),),
)

WARM_UPS = (SAVED_BYTES, MOST_ROWS, KERNELS_LEFT, EXTEND_SOFTMAX)
