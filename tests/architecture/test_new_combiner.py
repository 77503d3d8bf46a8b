"""A combiner is added as one record of `explorer.ir.combiners.RECORDS`."""

import numpy as np
import pytest

import explorer
from explorer.errors import IronworksError
from explorer.ir.affine import var
from explorer.ir.combiners import COMBINERS, Combiner
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.text.parser import parse_program
from explorer.ir.text.program_text import print_program
from explorer.ir.types import Tensor
from explorer.ops.lowering import Lowering, letters
from explorer.ops.record import OperatorRecord
from tests.architecture.conftest import INT32, File, Shell
from tests.architecture.house import drawn, program
from tests.codegen.running import run_kernel
from widgets.session.session import Session

EITHER = Combiner("either", "bitor", np.bitwise_or, lambda dtype: 0)


def lower(low: Lowering) -> None:
    """Along the last axis."""
    nest, (*kept, last) = low.nest("any_bit"), letters(low.site.shape())
    x = nest.load(low.site.arg(0), "x", tuple(var(a.name) for a in (*kept, last)))
    nest.compute("y", low.shape, low.site.dtype(), tuple(kept), x, (last,), "either")
    nest.into(low.result)


OPERATOR = OperatorRecord(
    "AnyBit",
    "reduction",
    lambda site: (Tensor(site.shape()[:-1], site.dtype()),),
    lambda attrs, args: np.bitwise_or.reduce(args[0], axis=-1),
    lower,
)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMBINERS, "either", EITHER)
    explorer.operator(OPERATOR, domain="own")


@pytest.mark.few(5)
@pytest.mark.parametrize("shape", [(1, 1), (3, 0), (7, 13), (2, 5, 101), (64, 96)])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_it_folds(shape: tuple[int, ...], dtype: str) -> None:
    any_bit = explorer.operator(OPERATOR, domain="own")

    @explorer.trace
    def model(x: explorer.tensor(dtype, *shape)):  # type: ignore[no-untyped-def,valid-type]
        return any_bit(x)

    c = explorer.compile(model, check=True)
    assert {s.checked for s in c.snapshots[:-1]} == {True}  # the last makes no program
    x = np.random.default_rng(2).integers(0, 100, shape).astype(dtype)
    (got,) = c.run({"x": x}).values()
    np.testing.assert_array_equal(got, np.bitwise_or.reduce(x, axis=-1))
    assert got.dtype == dtype


@pytest.mark.parametrize("rows", [1, 5, 13])
def test_it_runs_along_an_axis(rows: int) -> None:
    """y[i, j] = either over all r <= i of x[r, j]: the running fold that sums and products are."""
    i, j, r = Axis("i", rows), Axis("j", 17), Axis("r", rows)
    read = Read("x", (var("i") - var("r"), var("j")), 0.0)
    tensors = (TensorSpec("x", (rows, 17), "int32"), TensorSpec("y", (rows, 17), "int32"))
    kernel = Kernel("running", tensors, (Compute("y", (i, j), read, (r,), "either"),), ("x",), "y")
    x = np.random.default_rng(3).integers(0, 1000, (rows, 17)).astype(np.int32)
    got = run_kernel(kernel, Tiling(), {"x": x})
    np.testing.assert_array_equal(got.reshape(rows, 17), np.bitwise_or.accumulate(x, axis=0))


def test_what_it_cannot_fold_is_refused() -> None:
    any_bit = explorer.operator(OPERATOR, domain="own")

    @explorer.trace
    def floats(x: explorer.tensor("float32", 3, 4)):  # type: ignore[no-untyped-def,valid-type]
        return any_bit(x)

    with pytest.raises(IronworksError):
        explorer.compile(floats)


def test_it_is_printed_and_shown(file: File, shell: Shell) -> None:
    path = file("AnyBit", INT32, (64, 96), (64,))
    c = explorer.compile(path)
    text = print_program(c.snapshot("legalise to kernels").after, digests=False)
    assert "either[" in text
    assert print_program(parse_program(text, {}), digests=False) == text
    session = Session(c)
    assert "either" in program(session, "legalise to kernels")
    assert "either[" in drawn(session, "tile_program")
    assert "either[" in shell("explain", path, "--stage", "roller", "--rewrites")
