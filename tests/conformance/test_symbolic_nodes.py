"""The onnx package's node tests over symbolic dims: a case of each operator; by `make test-all`
every case.

Each case is compiled to kernels with all, some and no dims of its inputs as symbols, and must give
the case's right outputs. `python -m tests.conformance.test_symbolic_nodes` prints counts, and the
cases that fail.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from explorer.errors import IronworksError
from explorer.frontends.load import load
from explorer.ops.interpreter.evaluate import evaluate
from explorer.relax import deduce, legalize
from tests.conformance.onnx_nodes import (
    RANDOM,
    REASONS,
    Outcome,
    agrees,
    cases,
    first_of_each,
    plain,
)

WAYS = {"no": 0.0, "some": 0.5, "all": 1.0}
ROW = "a condition of as many elements as a symbol says is no condition"
LIMITS = {  # why a case is refused over symbols, by the beginnings of the names
    "test_affine_grid_2d_align_corners_expanded": ROW,
    "test_affine_grid_3d_align_corners_expanded": ROW,
    "test_strnormalizer": "the onnx package infers nothing where the first dim is a symbol",
}


def with_symbols(model: onnx.ModelProto, share: float, seed: int) -> onnx.ModelProto:
    """Return a copy in which so many of the inputs' dims are symbols, each one another."""
    found, rng, count = onnx.ModelProto(), np.random.default_rng(seed), 0
    found.CopyFrom(model)
    for value in found.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if rng.random() < share:
                count += 1
                dim.dim_param = f"q{count}"
    for value in found.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return found


def outcome(case: Any, way: str, folder: Path) -> Outcome:
    """Return how a case goes where so many of its dims are symbols."""
    name = f"{case.name} ({way})"
    model = with_symbols(case.model, WAYS[way], len(name))
    names = [d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim]
    bounds: Any = {n: (0, None) for n in names if n}
    onnx.save(model, folder / "case.onnx")
    try:
        program = legalize(deduce(load(folder / "case.onnx", bounds=bounds).program))
        for inputs, wanted in case.data_sets:
            given = dict(zip([i.name for i in model.graph.input], map(plain, inputs)))
            agrees(list(evaluate(program, given).values()), list(map(plain, wanted)), case)
    except IronworksError as error:
        return Outcome(name, "refused", (), f"{type(error).__name__}: {error}")
    except AssertionError as error:
        return Outcome(name, "wrong", (), " ".join(str(error).split())[:200])
    return Outcome(name, "pass")


def run(wanted: Callable[[str], bool]) -> Iterator[Outcome]:
    """Every case whose name is wanted, in every way; those without a right answer are left out."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in cases():
            if wanted(case.name) and not case.name.startswith((*RANDOM, *REASONS)):
                for way in WAYS:
                    yield outcome(case, way, Path(folder))


def unexpected(found: Outcome) -> bool:
    """Return True if a case is wrong, or refused without a reason that is known."""
    known = found.kind == "refused" and found.name.startswith(tuple(LIMITS))
    return found.kind != "pass" and not (known and not found.name.endswith("(no)"))


PARTS = 6


def checked(names: list[str], part: int) -> None:
    """Run a part of the cases."""
    chosen = set(names[part::PARTS])
    found = list(run(chosen.__contains__))
    assert len(found) > len(chosen)
    assert not [o for o in found if unexpected(o)]


@pytest.mark.parametrize("part", range(PARTS))
def test_an_operator_gives_over_symbols_what_onnx_says(part: int) -> None:
    checked(first_of_each(lambda name: "expanded" not in name), part)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(PARTS))
def test_every_case_gives_over_symbols_what_onnx_says(part: int) -> None:
    checked([str(case.name) for case in cases()], part)


def main() -> int:
    """Run every case and print the counts."""
    found = list(run(lambda name: True))
    for o in found:
        if o.kind != "pass":
            print(f"{o.kind:8} {o.name}: {o.reason}")
    for way in WAYS:
        print(way, dict(Counter(o.kind for o in found if o.name.endswith(f"({way})"))))
    return int(any(map(unexpected, found)))


if __name__ == "__main__":
    sys.exit(main())
