"""Bounds leave open what rounding decides, and nothing else."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import explorer
from tests.fuzz.compare import compare
from tests.fuzz.exact import bounds
from tests.fuzz.judge import typed

# Columns of w that are equal have equal sums of products, up to the order of the terms.
READ = {
    "Hardmax": "y = Hardmax <axis = -1> (p)",
    "ArgMax, one-hot": """
        chosen = ArgMax <axis = -1, keepdims = 0> (p)
        y = OneHot <axis = -1> (chosen, depth, ends)""",
    "ArgMax, gathered": """
        chosen = ArgMax <axis = -1, keepdims = 0> (p)
        y = Gather <axis = 0> (table, chosen)""",
    "ArgMin, gathered": """
        less = Neg (p)
        chosen = ArgMin <axis = -1, keepdims = 0> (less)
        y = Gather <axis = 0> (table, chosen)""",
    "TopK, gathered": """
        some, chosen = TopK <axis = -1> (p, one)
        flat = Squeeze (chosen, last)
        y = Gather <axis = 0> (table, flat)""",
    "Hardmax, multiplied": """
        hot = Hardmax <axis = -1> (p)
        y = MatMul (hot, table)""",
}
ROWS, DEPTH, COLUMNS = 64, 33, 24
TIED = 3  # rows in which equal sums are the largest
EQUAL = tuple(range(2, 20, 2))


@pytest.mark.parametrize("read", READ)
def test_rounding_may_choose_any_of_equal_sums_and_no_other(read: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=(DEPTH, COLUMNS)).astype(np.float32)
    w[:, EQUAL] = w[:, EQUAL[:1]]
    largest = rng.integers(20, COLUMNS, ROWS)
    largest[:TIED] = EQUAL[0]
    x = (w.T[largest] * rng.uniform(1, 2, (ROWS, 1))).astype(np.float32)
    table = 10 * np.eye(COLUMNS, dtype=np.float32)
    constants = {
        "w": w, "table": table, "depth": np.array(COLUMNS), "one": np.array([1]),
        "last": np.array([-1]), "ends": np.array([0, 1], np.float32),
    }  # fmt: skip
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        choice (float[{ROWS}, {DEPTH}] x) => (float[{ROWS}, {COLUMNS}] y) {{
            p = MatMul (x, w)
            {READ[read]}
        }}""")
    for name, value in constants.items():
        if any(name in node.input for node in model.graph.node):
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    path = tmp_path / "choice.onnx"
    onnx.save(model, path)
    program = typed(explorer.load(path)).snapshot("infer shapes").after
    right = bounds(program, {"x": x})
    rows = table if "table" in READ[read] else table / 10
    for row in (0, TIED - 1, TIED, ROWS - 1):
        for column in range(COLUMNS):
            chosen = largest.copy()
            chosen[row] = column
            wrong = compare({"y": rows[chosen]}, right)
            may = EQUAL if row < TIED else (largest[row],)
            assert (column in may) == (not wrong), (row, column, wrong)


def test_a_choice_of_whole_numbers_is_exact(tmp_path: Path) -> None:
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        choice (int64[4, 6] x, int64[1] k) => (int64[4, k] y, int64[4, k] at, int64[4] first) {
            y, at = TopK <axis = -1> (x, k)
            first = ArgMax <axis = -1, keepdims = 0> (x)
        }""")
    path = tmp_path / "choice.onnx"
    onnx.save(model, path)
    program = typed(explorer.load(path)).snapshot("infer shapes").after
    x = np.arange(24).reshape(4, 6) % 5
    right = bounds(program, {"x": x, "k": np.array([3])})
    assert all(bound.judged.all() and not bound.reach.any() for bound in right.values())
    assert right["first"].value.tolist() == x.argmax(-1).tolist()
