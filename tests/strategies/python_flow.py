"""Random Python functions with nested control flow, as text that Python runs on NumPy arrays."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.strategies.choices import Choices, generator

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
VECTORS = ("a", "b", "c")
EXPRESSIONS = (
    "{v} * 0.5 + {w}", "{v} - {w}", "xp.tanh({v})", "{v}[::-1] * 0.75", "{v} @ MATRIX",
)  # fmt: skip
TESTS = (
    *(f"{{v}}.sum() > {limit}" for limit in ("-1", "0", "0.5")),
    *["{v}[0] < {w}[1] or not {w}.max() < 0.25", "-1 < {v}[1] and k > 1", "m > 1"] * 3,
)
# Lines of each kind, at any depth.
LINES = {
    "assign": "{v} = {expression}",
    "choose": "{v} = {w} if {test} else {expression}",
    "swap": "a, b = {v}, {expression}",
    "element": "{v} = {v} * 1\n{v}[{place}] = {w}.sum()",
    "count": "m = (m + 1) % 4",
    "call": "{v} = settled({w}, {u}, m)",
    "recursion": "{v} = deeper({w}, m)",
}
WORDS = {
    "u": VECTORS, "v": VECTORS, "w": VECTORS, "place": ("1", "m"), "test": TESTS,
    "expression": EXPRESSIONS,
}  # fmt: skip
NESTS = ("if", "else", "for", "rows", "while", "exit")
COUNTS = ("k", "3", "x.shape[0]", "1, k + 1", "m", "m, k", "k, 0, -2")
ROWS = ("x", "x[2:]", "reversed(x)", "x[::2]")


class Words(dict[str, str]):
    """The words of a template, drawn when it names them."""

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self.choices = choices

    def __missing__(self, name: str) -> str:
        self[name] = filled(self.choices, self.choices.one(WORDS[name]))
        return self[name]


def filled(c: Choices, template: str) -> str:
    return template.format_map(Words(c))


def statement(c: Choices, depth: int, loop: bool) -> list[str]:
    """The lines of one statement, with others in it `depth` deep at most; in a `loop`, or not."""
    kind = c.one((*LINES, *NESTS, *NESTS) if depth else tuple(LINES))
    if kind in LINES:
        return filled(c, LINES[kind]).split("\n")
    if kind == "exit":
        words = ["break", "continue"] if loop else [RETURN]
        return [filled(c, "if {test}:"), f"    {c.one(words)}"]
    if kind in ("if", "else"):
        lines = [filled(c, "if {test}:"), *indented(block.make(c, depth - 1, loop))]
        if kind == "else":
            lines += ["else:", *indented(block.make(c, depth - 1, loop))]
        return lines
    name, body, before = f"i{depth}", block.make(c, depth - 1, True), []
    if kind == "for":
        head, first = f"for {name} in range({c.one(COUNTS)}):", f"a = a + {name} * 0.125"
    elif kind == "rows":
        head, first = f"for {name} in {c.one(ROWS)}:", f"b = b + {name} * 0.25"
    else:
        head = f"while {name} < k and ({filled(c, '{test}')}):"
        before, first = [f"{name} = 0"], f"{name} = {name} + 1"
    lines = [*before, head, *indented([first, *body])]
    if c.chance(0.25):
        lines += ["else:", *indented(block.make(c, 0, loop))]
    return lines


@generator
def block(c: Choices, depth: int, loop: bool) -> list[str]:
    """The lines of one to three statements."""
    return [line for _ in range(c.number(1, 3)) for line in statement(c, depth, loop)]


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
