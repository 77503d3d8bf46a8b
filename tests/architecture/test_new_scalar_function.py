"""A scalar function is added as one record of `explorer.ir.scalar_functions.RECORDS`."""

import numpy as np
import pytest

import explorer
from explorer.codegen.cpu.vector_math import ELEMENTARY
from explorer.cost.loops import function_cycles
from explorer.errors import IronworksError
from explorer.ir.affine import var
from explorer.ir.kernel import Apply, Read
from explorer.ir.scalar_functions import SCALAR_FUNCTIONS, ScalarFunction
from explorer.ir.text.parser import parse_program
from explorer.ir.text.program_text import print_program
from explorer.ops.elementwise import call, unary
from explorer.ops.verify_kernel import result_of
from tests.architecture.conftest import FLOAT, File, Shell
from tests.architecture.house import drawn, program
from widgets.session.session import Session

SOFT = ScalarFunction(
    "soft",
    "float",
    1,
    lambda x: x / (1 + np.abs(x)),
    derivative=lambda f, y, x: (1.0 / ((1.0 + f("abs", x)) * (1.0 + f("abs", x))),),
    decompose=lambda f, x: f("div", x, f("add", 1.0, f("abs", x))),
    cycles=6.0,
)
OPERATOR = unary(
    "Soft", lambda site, x, dtype: call("soft", x), lambda attrs, args: SOFT.numpy(args[0])
)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCALAR_FUNCTIONS, "soft", SOFT)
    explorer.operator(OPERATOR, domain="own")


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (7, 13), (2, 1, 101)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_it_is_evaluated_and_compiled_to_code(shape: tuple[int, ...], dtype: str) -> None:
    soft = explorer.operator(OPERATOR, domain="own")

    @explorer.trace
    def model(x: explorer.tensor(dtype, *shape)):  # type: ignore[no-untyped-def,valid-type]
        return soft(x)

    c = explorer.compile(model, check=True)
    assert {s.checked for s in c.snapshots[:-1]} == {True}  # the last makes no program
    x = np.random.default_rng(1).normal(size=shape).astype(dtype) * 10
    x.ravel()[:3] = [np.nan, np.inf, -0.0][: x.size]
    with np.errstate(invalid="ignore"):
        want = SOFT.numpy(x)
    (got,) = c.run({"x": x}).values()
    np.testing.assert_allclose(got, want, 1e-6)
    assert got.dtype == dtype


@pytest.mark.parametrize("shape", [(7, 13), (2, 1, 101)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_with_a_form_of_its_own_is_a_record_and_that_form(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dtype: str
) -> None:
    cubed = ScalarFunction("cubed", "float", 1, lambda x: x * x * x, cycles=1.0, vectors="float")
    monkeypatch.setitem(SCALAR_FUNCTIONS, "cubed", cubed)
    monkeypatch.setitem(ELEMENTARY, "cubed", lambda x: x * x * x)
    operator = unary(
        "Cubed", lambda s, x, d: call("cubed", x), lambda a, args: cubed.numpy(args[0])
    )
    own = explorer.operator(operator, domain="own")

    @explorer.trace
    def model(x: explorer.tensor(dtype, *shape)):  # type: ignore[no-untyped-def,valid-type]
        return own(x)

    x = np.asarray(np.random.default_rng(1).normal(size=shape), dtype)
    c = explorer.compile(model)
    (got,) = c.run({"x": x}).values()
    np.testing.assert_allclose(got, x * x * x, 1e-6)
    assert "order='along'" in c.kernels[0].code.source


def test_its_dtypes_are_verified() -> None:
    assert result_of("soft", ["float32"]) == ("float32", "")
    assert result_of("soft", ["int32"])[1] and result_of("soft", ["float32", "float32"])[1]
    soft = explorer.operator(OPERATOR, domain="own")

    @explorer.trace
    def whole(x: explorer.tensor("int32", 3)):  # type: ignore[no-untyped-def,valid-type]
        return soft(x)

    with pytest.raises(IronworksError, match="soft"):
        explorer.compile(whole)


def test_it_is_priced_and_has_its_slope() -> None:
    assert function_cycles(Apply("soft", (Read("x", (var("i"),)),)), "i") == 6.0
    x = np.linspace(-3, 3, 101)
    assert SOFT.derivative is not None
    (slope,) = SOFT.derivative(lambda n, *a: SCALAR_FUNCTIONS[n].numpy(*a), SOFT.numpy(x), x)
    step = 1e-6
    want = (SOFT.numpy(x + step) - SOFT.numpy(x - step)) / (2 * step)
    np.testing.assert_allclose(slope, want, 1e-5, 1e-5)


def test_it_is_printed_and_shown(file: File, shell: Shell) -> None:
    path = file("Soft", FLOAT, (64, 96), (64, 96))
    c = explorer.compile(path)
    text = print_program(c.snapshot("legalise to kernels").after, digests=False)
    assert "soft(" in text
    assert print_program(parse_program(text, {}), digests=False) == text
    session = Session(c)
    assert "soft(" in program(session, "legalise to kernels")
    assert "/ (1.0 + abs(" in drawn(session, "tile_program")
    told = shell("explain", path, "--stage", "roller", "--rewrites")
    assert "/ (1.0 + abs(" in told and "lanes" in told  # in vectors, as what it is made of is
