"""Products of bytes in int32, which are multiplied as bytes."""

from typing import Any

import numpy as np
import pytest

import explorer
import explorer.np as xp
from explorer import tensor
from explorer.ir.calls import OpCall, Var
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import Tensor
from explorer.transforms.simplify.narrow_products import multiply_bytes

RNG = np.random.default_rng(0)
BYTES = RNG.integers(-128, 128, (40, 24)).astype(np.int8)
POSITIVE = RNG.integers(128, 256, (40, 24)).astype(np.int32)
WIDE = 2 * BYTES.astype(np.int32)


def traced(dtype: str, weights: Any) -> Any:
    """Return the int32 product of bytes of that type, and of weights that are made int32."""

    @explorer.trace
    def product(x: tensor(dtype, "rows", 40)) -> Any:  # type: ignore[valid-type]
        w = xp.asarray(weights).astype("int32") if weights is BYTES else weights
        return x.astype("int32") @ w

    return product


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("weights", [BYTES, POSITIVE, WIDE])
def test_a_product_of_bytes_is_exact(weights: np.ndarray, dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = RNG.integers(limits.min, limits.max + 1, (5, 40)).astype(dtype)
    (got,) = explorer.compile(traced(dtype, weights)).run({"x": x}).values()
    np.testing.assert_array_equal(got, x.astype(np.int32) @ weights.astype(np.int32))
    assert got.dtype == np.int32


@pytest.mark.parametrize(
    ("weights", "becomes"),
    [(BYTES, "MatMulInteger"), (POSITIVE, "MatMulInteger"), (WIDE, "MatMul")],
)
def test_bytes_are_read_where_all_elements_are_bytes(weights: np.ndarray, becomes: str) -> None:
    c = explorer.compile(traced("int8", weights), until="typed")
    assert becomes in {b.op_call.op for b in c.program.main.body}


@pytest.mark.parametrize(("dtype", "becomes"), [("int8", "MatMulInteger"), ("uint8", "MatMul")])
def test_int8_that_is_no_constant_is_read_as_it_is(dtype: str, becomes: str) -> None:
    @explorer.trace
    def product(x: tensor("int8", "rows", 40), w: tensor(dtype, 40, 24)) -> Any:  # type: ignore[valid-type]
        return x.astype("int32") @ w.astype("int32")

    w = BYTES.view(dtype)
    x = RNG.integers(-128, 128, (5, 40)).astype(np.int8)
    (got,) = explorer.compile(product).run({"x": x, "w": w}).values()
    np.testing.assert_array_equal(got, x.astype(np.int32) @ w.astype(np.int32))
    c = explorer.compile(product, until="typed")
    assert becomes in {b.op_call.op for b in c.program.main.body}


def test_values_of_unknown_types_are_left_as_they_are() -> None:
    x, y = Var("x", Tensor(None, None)), Var("y", Tensor(None, None))
    cast = Binding((y,), OpCall("Cast", (x,), (("to", "int32"),)))
    product = Binding((Var("z", Tensor(None, None)),), OpCall("MatMul", (y, y)))
    main = Function("main", (x,), (cast, product), product.vars, ("z",))
    program = Program((main,), {})
    assert multiply_bytes(program) is program
