"""What operators are tested on in float32, in half floats: every stage verifies and agrees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import explorer
from explorer.ir.dtypes import numpy_dtype
from explorer.ops.interpreter.evaluate import evaluate
from explorer.ops.interpreter.verify import verify
from tests.ops import (
    test_contractions,
    test_fourier,
    test_layouts,
    test_recurrent,
    test_sampling,
    test_scatter_and_selection,
    test_windows_and_reductions,
)
from tests.ops.one_operator import Case, proto, stages

TESTS = (
    *(test_contractions, test_fourier, test_layouts, test_recurrent, test_sampling),
    *(test_scatter_and_selection, test_windows_and_reductions),
)
ONLY_THE_FIRST = ("Resize", "Upsample")  # its scales are float32


def narrowed(case: Case, dtype: str) -> Case | None:
    """The case with its float32 inputs in another dtype; None where it has none."""

    def narrow(i: int, x: Any) -> Any:
        kept = x is None or np.asarray(x).dtype != np.float32
        kept |= i > 0 and case.op in ONLY_THE_FIRST
        return x if kept else np.asarray(x).astype(numpy_dtype(dtype))

    with np.errstate(over="ignore"):
        found = [narrow(i, x) for i, x in enumerate(case.inputs)]
    changed = any(a is not b for a, b in zip(found, case.inputs, strict=True))
    return replace(case, inputs=found) if changed else None


def cases() -> Iterator[Case]:
    for tests in TESTS:
        for value in vars(tests).values():
            if isinstance(value, list):
                yield from (c for c in value if isinstance(c, Case))


@pytest.mark.few(15)
@pytest.mark.parametrize("op", sorted({c.op for c in cases()}))
def test_an_operator_computes_on_half_floats_in_float32(op: str, tmp_path: Path) -> None:
    for case in cases():
        half = narrowed(case, "float16") if case.op == op else None
        if half is None:
            continue
        onnx.save(proto(half), tmp_path / "case.onnx")
        programs = stages(tmp_path / "case.onnx")
        given = ((i, x) for i, x in enumerate(half.inputs) if x is not None)
        feeds = {f"x{i}": np.asarray(x) for i, x in given if i not in half.known}
        answers = []
        for program in programs:
            verify(program)
            answers.append(list(evaluate(program, feeds).values()))
        for found in answers[1:]:
            for a, right in zip(found, answers[0], strict=True):
                assert a.dtype == right.dtype and a.shape == right.shape, case.name
                wanted = right.astype(np.float64)
                np.testing.assert_allclose(
                    a.astype(np.float64), wanted, 2.0**-10, 2.0**-20, err_msg=case.name
                )


@pytest.mark.parametrize(("op", "equation"), [("MatMul", ""), ("Einsum", "ij,jk->ik")])
def test_an_operand_that_is_given_twice_is_widened_once(
    op: str, equation: str, tmp_path: Path
) -> None:
    attributes = {"equation": equation} if equation else {}
    node = onnx.helper.make_node(op, ["x", "x"], ["y"], **attributes)
    x, y = (onnx.helper.make_tensor_value_info(n, 10, [3, 3]) for n in "xy")
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "twice", [x], [y]),
        opset_imports=[onnx.helper.make_opsetid("", 18)],
    )
    onnx.save(model, tmp_path / "twice.onnx")
    compiled = explorer.compile(tmp_path / "twice.onnx", check=True)
    assert {step.checked for step in compiled.snapshots} <= {None, True}
    given = np.arange(9, dtype=np.float16).reshape(3, 3)
    np.testing.assert_array_equal(compiled.run(given)["y"], given @ given)
