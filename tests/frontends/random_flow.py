"""Random Python functions with nested control flow, as text that Python runs on NumPy arrays."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

HEAD = """import numpy as np
import explorer
from explorer import np as xp

MATRIX = np.array([[0.5, -0.25, 0, 0.125], [0, 0.5, 0.25, 0], [0.25, 0, 0.5, -0.5], [0, 0, 0, 1]])
MATRIX = MATRIX.astype(np.float32)


@explorer.trace
def settled(p, q, k):
    if p.sum() > q.sum():
        return p * 0.5
    turns = 0
    while turns < k:
        if q.max() > 1:
            break
        q = q + 0.375
        turns += 1
    else:
        q = -q
    return p - q


@explorer.function(result=explorer.tensor("float32", 4))
def deeper(p: explorer.tensor("float32", 4), k: explorer.tensor("int64")):
    if k <= 0 or p.max() > 4:
        return p * 0.5
    left = deeper(p * 0.75, k - 1)
    for i in range(k - 1):
        left = left * 0.5 + i
    return left - deeper(p[::-1] * 0.5, k - 2) if left[0] > 0 else left


@explorer.trace
def run(x: explorer.tensor("float32", "n", 4), k: explorer.tensor("int64")):
    a, b, c, m = x[0], x[1] * 0.5, x[0] - x[1], k * 0
"""
RETURN = "return a, b, c, m"
BOUNDS = {"n": (2, 64)}
VECTOR = st.sampled_from(("a", "b", "c"))
EXPRESSION = st.one_of(
    st.builds("{} * 0.5 + {}".format, VECTOR, VECTOR),
    st.builds("{} - {}".format, VECTOR, VECTOR),
    st.builds("xp.tanh({})".format, VECTOR),
    st.builds("{}[::-1] * 0.75".format, VECTOR),
    st.builds("{} @ MATRIX".format, VECTOR),
)
TEST = st.one_of(
    st.builds("{}.sum() > {}".format, VECTOR, st.sampled_from(("-1", "0", "0.5"))),
    st.builds("{0}[0] < {1}[1] or not {1}.max() < 0.25".format, VECTOR, VECTOR),
    st.builds("-1 < {}[1] and k > 1".format, VECTOR),
    st.just("m > 1"),
)
# What takes one line of each kind, at any depth.
LINES: dict[str, st.SearchStrategy[list[str]]] = {
    "assign": st.builds("{} = {}".format, VECTOR, EXPRESSION).map(lambda s: [s]),
    "choose": st.builds("{} = {} if {} else {}".format, VECTOR, VECTOR, TEST, EXPRESSION).map(
        lambda s: [s]
    ),
    "swap": st.builds("{} = {}, {}".format, st.just("a, b"), VECTOR, EXPRESSION).map(lambda s: [s]),
    "element": st.builds(
        "{0} = {0} * 1;{0}[{1}] = {2}.sum()".format, VECTOR, st.sampled_from(("1", "m")), VECTOR
    ).map(lambda s: s.split(";")),
    "count": st.just(["m = (m + 1) % 4"]),
    "call": st.builds("{} = settled({}, {}, m)".format, VECTOR, VECTOR, VECTOR).map(lambda s: [s]),
    "recursion": st.builds("{} = deeper({}, m)".format, VECTOR, VECTOR).map(lambda s: [s]),
}
NESTS = ("if", "else", "for", "rows", "while", "exit")
COUNTS = st.sampled_from(("k", "3", "x.shape[0]", "1, k + 1", "m", "m, k", "k, 0, -2"))
ROWS = st.sampled_from(("x", "x[2:]", "reversed(x)", "x[::2]"))


@st.composite
def statement(draw: Any, depth: int, loop: bool) -> list[str]:
    """The lines of one statement, with others in it `depth` deep at most; in a `loop`, or not."""
    kind = draw(st.sampled_from((*LINES, *NESTS, *NESTS) if depth else tuple(LINES)))
    if kind in LINES:
        return draw(LINES[kind])
    if kind == "exit":
        words = ["break", "continue"] if loop else [RETURN]
        return [f"if {draw(TEST)}:", f"    {draw(st.sampled_from(words))}"]
    if kind in ("if", "else"):
        inner = block(depth - 1, loop)
        lines = [f"if {draw(TEST)}:", *indented(draw(inner))]
        return [*lines, "else:", *indented(draw(inner))] if kind == "else" else lines
    name, body, before = f"i{depth}", draw(block(depth - 1, True)), []
    if kind == "for":
        head, first = f"for {name} in range({draw(COUNTS)}):", f"a = a + {name} * 0.125"
    elif kind == "rows":
        head, first = f"for {name} in {draw(ROWS)}:", f"b = b + {name} * 0.25"
    else:
        head, first = f"while {name} < k and ({draw(TEST)}):", f"{name} = {name} + 1"
        before = [f"{name} = 0"]
    lines = [*before, head, *indented([first, *body])]
    if draw(st.integers(0, 3)) == 0:
        lines += ["else:", *indented(draw(block(0, loop)))]
    return lines


def block(depth: int, loop: bool) -> st.SearchStrategy[list[str]]:
    """The lines of one to three statements."""
    several = st.lists(statement(depth, loop), min_size=1, max_size=3)
    return several.map(lambda lists: [line for lines in lists for line in lines])


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def written(folder: Path, lines: list[str]) -> Callable[..., Any]:
    """The function of these lines, in a file of its own: what is traced has a text."""
    path = folder / "written.py"
    path.write_text(HEAD + "\n".join(indented([*lines, RETURN])) + "\n")
    spec = importlib.util.spec_from_file_location("written", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run: Callable[..., Any] = module.run
    return run
