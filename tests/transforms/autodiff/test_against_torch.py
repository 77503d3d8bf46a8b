"""Derivatives of operators against PyTorch's, in both dtypes; compiled too."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.transforms.autodiff.torch_cases import functions
from tests.transforms.autodiff.torch_cases.case import (
    SHARES,
    Case,
    agree,
    as_dtype,
    by_interpreter,
    by_torch,
    compiled,
)

TABLES = ("elementwise", "products", "reductions", "shapes", "windows")
CASES: dict[str, Case] = {
    f"{table}: {name}": case
    for table in TABLES
    for name, case in import_module(f"tests.transforms.autodiff.torch_cases.{table}").CASES.items()
}


@pytest.mark.parametrize("dtype", SHARES)
@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_pytorch(name: str, dtype: str) -> None:
    case = CASES[name]
    args = as_dtype(case, dtype)
    wanted = by_torch(case, args)
    found = by_interpreter(case, args, wanted)
    if not case.why:
        agree(found, wanted, dtype)
        return
    with pytest.raises(AssertionError, match="gradient"):
        agree(found, wanted, dtype)


@pytest.mark.parametrize("name", CASES)
def test_and_so_are_those_of_code(name: str) -> None:
    case = CASES[name]
    args = as_dtype(case, "float32")
    wanted = by_torch(case, args)
    found = compiled(case, args, wanted)
    if not case.why:
        agree(found, wanted, "float32")


@pytest.mark.parametrize("name", functions.CASES)
def test_those_of_operators_that_are_functions(name: str, tmp_path: Path) -> None:
    node = functions.CASES[name]
    for dtype in node.dtypes:
        args = as_dtype(node.case, dtype)
        wanted = by_torch(node.case, args)
        model = node.model(args, wanted, tmp_path)
        agree(functions.by_interpreter(model, [*wanted.seeds, *args]), wanted, dtype)


@pytest.mark.parametrize("name", functions.CASES)
def test_and_those_of_their_code(name: str, tmp_path: Path) -> None:
    node = functions.CASES[name]
    args = as_dtype(node.case, "float32")
    wanted = by_torch(node.case, args)
    model = node.model(args, wanted, tmp_path)
    agree(functions.compiled(model, [*wanted.seeds, *args]), wanted, "float32")
