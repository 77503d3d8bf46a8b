"""Operators without kernels become marked library calls, or are refused by name."""

from pathlib import Path

import numpy as np
import onnx
import pytest

from explorer.errors import UnsupportedOperator
from explorer.frontends.load import load
from explorer.ir.calls import LibraryCall, MatchCast
from explorer.ir.types import Tensor
from explorer.ops import family
from explorer.ops.interpreter.libraries import call_library
from explorer.relax import deduce, legalize
from tests.ops.one_operator import Case, check, proto

random = np.random.default_rng(5)
X = random.standard_normal((3, 6)).astype(np.float32)
WORDS = {
    "max_gram_length": 2,
    "max_skip_count": 0,
    "min_gram_length": 1,
    "mode": "TF",
    "ngram_counts": [0, 3],
    "ngram_indexes": [0, 1, 2, 3],
    "pool_int64s": [2, 3, 5, 5, 4],
}
MATRIX = random.standard_normal((5, 5)).astype(np.float32)
CASES = [
    Case("Det", [MATRIX], opset=11, library=True, tolerance=1e-5),
    Case("Unique", [np.array([3, 1, 3, 2, 1])], {"sorted": 0}, outputs=4, library=True),
    Case("Unique", [np.array([[3, 1, 3], [0, 1, 0]])], {"sorted": 0, "axis": 1}, library=True),
    Case("TfIdfVectorizer", [np.array([[2, 3, 5, 4], [5, 4, 3, 3]])], WORDS, library=True),
]


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_an_operator_without_a_kernel_rule_becomes_a_library_call(
    case: Case, tmp_path: Path
) -> None:
    check(case, tmp_path)


def test_a_library_call_is_marked_as_such(tmp_path: Path) -> None:
    onnx.save(proto(CASES[0]), tmp_path / "case.onnx")
    call = legalize(deduce(load(tmp_path / "case.onnx").program)).library_calls[0]
    assert isinstance(call.expr, LibraryCall)
    assert (call.expr.library, call.expr.function) == ("numpy", "Det")
    assert family(call) == "library call"


def test_the_shape_of_a_result_that_only_a_run_knows_gets_a_symbol(tmp_path: Path) -> None:
    onnx.save(proto(Case("NonZero", [X])), tmp_path / "case.onnx")
    program = deduce(load(tmp_path / "case.onnx").program)
    call, cast = program.main.body
    assert call.var.type == Tensor(None, "int64", 2)
    assert cast.expr == MatchCast(call.var)
    assert isinstance(cast.var.type, Tensor) and cast.var.type.rank == 2


def test_a_library_that_is_not_known_is_refused() -> None:
    with pytest.raises(UnsupportedOperator, match="no library 'os'"):
        call_library("os", "system", (), [], 1)
