"""Random functions that change elements of arrays give what NumPy gives, on one worker and two."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.ir.calls import KernelCall
from explorer.rammer import Options as RammerOptions

ROWS, WIDTH = 12, 5
ARRAYS = ("y", "z")
HEAD = f"""
import numpy as np
from explorer import tensor

def function(x: tensor("float32", {ROWS}, {WIDTH}), k: tensor("int64")):
    y, z, s, i = x * 1, x.copy() * 2, x[0, 0] * 1, k * 0
"""


class Writer:
    """Writes one function; what it does is in range whatever the run decides."""

    def __init__(self, seed: int) -> None:
        self.rnd, self.lines = Random(seed), [HEAD.strip("\n")]

    def text(self) -> str:
        """The function."""
        self.block(1, self.rnd.randint(3, 6), ["i"])
        return "\n".join([*self.lines, "    return y, z, s, i", ""])

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, count: int, counts: list[str]) -> None:
        for _ in range(count):
            self.statement(depth, counts)

    def statement(self, depth: int, counts: list[str]) -> None:
        kinds = ["part"] * 4 + ["more", "rebind", "swap", "scalar", "copy"]
        if depth < 4:
            kinds += ["if", "if", "for", "while"]
        kind, a = self.rnd.choice(kinds), self.rnd.choice(ARRAYS)
        match kind:
            case "part":
                place, value = self.part(counts)
                self.line(depth, f"{a}[{place}] = {value}")
            case "more":
                place, value = self.part(counts)
                self.line(depth, f"{a}[{place}] {self.rnd.choice('+-*')}= {value}")
            case "rebind":
                self.line(depth, f"{a} = {self.rnd.choice(ARRAYS)} * 0.5 + {self.number(counts)}")
            case "copy":
                self.line(depth, "y, z = z.copy(), y.copy()")
            case "swap":
                p, q = (f"{a}[{self.row(counts)}, {self.rnd.randrange(WIDTH)}]" for _ in "pq")
                self.line(depth, f"{p}, {q} = {q} * 1, {p} * 1")
            case "scalar":
                self.line(depth, f"s = {self.number(counts)} - {a}.max() * 0.5")
            case "if":
                self.line(depth, f"if {self.number(counts)} > {self.rnd.choice([-1, 0, 1])}:")
                self.block(depth + 1, self.rnd.randint(1, 3), counts)
                if self.rnd.random() < 0.6:
                    self.line(depth, "else:")
                    self.block(depth + 1, self.rnd.randint(1, 2), counts)
            case "for":
                name = f"t{depth}"
                limit = self.rnd.choice(["k", "k + 1", "3", "k // 2"])
                self.line(depth, f"for {name} in range({limit}):")
                self.block(depth + 1, self.rnd.randint(1, 3), [*counts, name])
            case "while":
                self.line(depth, f"i = i - i + {self.rnd.randint(0, 2)}")
                self.line(depth, f"while i < k + {self.rnd.randint(0, 2)}:")
                self.block(depth + 1, self.rnd.randint(1, 2), counts)
                self.line(depth + 1, f"i = i + {self.rnd.randint(1, 2)}")

    def row(self, counts: list[str]) -> str:
        name = self.rnd.choice(counts)
        return self.rnd.choice(
            [f"{name} % {ROWS}", f"({name} + {self.rnd.randrange(ROWS)}) % {ROWS}", "3", "-1"]
        )

    def part(self, counts: list[str]) -> tuple[str, str]:
        """A place, and a value that fits there."""
        row, column, b = self.row(counts), self.rnd.randrange(WIDTH), self.rnd.choice(ARRAYS)
        kind = self.rnd.randrange(7)
        if kind == 0:
            return f"{row}, {column}", self.number(counts)
        if kind == 1:
            return row, f"{b}[{self.row(counts)}] * 0.5 + 1"
        if kind == 2:
            return f"{row}, 1:4", f"{b}[{self.row(counts)}, :3] - 1"
        if kind == 3:
            return f":, {column}", f"{b}[:, {self.rnd.randrange(WIDTH)}] * -0.5"
        if kind == 4:
            return "2:5", f"{b}[4:7] + {self.number(counts)}"
        if kind == 5:
            return row, self.number(counts)
        return "...", f"{b} * 0.25 + {self.number(counts)}"

    def number(self, counts: list[str]) -> str:
        b = self.rnd.choice(ARRAYS)
        return self.rnd.choice(
            [f"{b}[{self.row(counts)}, {self.rnd.randrange(WIDTH)}]", "s", "1.5", f"{b}[0].sum()"]
        )


QUICK, ALL = 8, 200


def written(seed: int, folder: Path) -> Any:
    """The function, in a file of its own: what is traced has a text."""
    path = folder / f"program{seed}.py"
    path.write_text(Writer(seed).text(), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.function


def check(seed: int, folder: Path) -> int:
    """How many kernels of the function write in place."""
    function = written(seed, folder)
    x = np.random.default_rng(seed).standard_normal((ROWS, WIDTH)).astype(np.float32)
    options = explorer.Options(rammer=RammerOptions(threads=1 + seed % 2))
    c = explorer.compile(explorer.trace(function), options=options)
    for k in (0, 1, 4):
        with np.errstate(all="ignore"):
            wanted = function(x.copy(), np.int64(k))
        for found, right in zip(c.run(x, np.int64(k)).values(), wanted, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-3, err_msg=f"seed {seed}")
    calls = (b.expr for _, b in c.program.bindings() if isinstance(b.expr, KernelCall))
    return sum(len(call.kernel.updates) for call in calls)


def test_random_functions_change_what_they_change_in_numpy(tmp_path: Path) -> None:
    assert sum(check(seed, tmp_path) for seed in range(QUICK)) > QUICK


@pytest.mark.exhaustive
def test_many_random_functions_change_what_they_change_in_numpy(tmp_path: Path) -> None:
    for seed in range(QUICK, ALL):
        check(seed, tmp_path)
