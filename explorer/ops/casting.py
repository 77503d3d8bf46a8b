"""Conversions between element types: to nearest, saturating where ONNX says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.ir.dims import ShapeEnv, is_symbolic
from explorer.ir.dtypes import (
    EIGHT_BIT_FLOATS,
    ITEM_BYTES,
    DType,
    as_computed,
    computed,
    dtype_of,
    is_float,
    is_integer,
    is_stored_otherwise,
    numpy_dtype,
)
from explorer.ir.kernel import Expr
from explorer.ir.types import Tensor
from explorer.ops.elementwise import call, of_expressions
from explorer.ops.interpreter.scalar import cast, same_bits
from explorer.ops.lowering import Lowering
from explorer.ops.record import Array, OperatorRecord, Site, dtype_of_code

SCALE = "float8_e8m0fnu"
MANTISSA, EXPONENT, LEAST = 0x7FFFFF, 0xFF, 0x400000  # of float32; the bits of 2 ** -127
MOST_FOLDED = 1 << 31  # larger floats are not folded; chosen
ROUND_UP = {
    "up": MANTISSA,
    "nearest": LEAST,
    "down": 0,
}  # the addend that carries into the exponent


def converted(x: Expr, source: DType, target: DType, *, saturate: bool, mode: str = "up") -> Expr:
    """Return the scalar expression `x` converted to another dtype."""
    if target in EIGHT_BIT_FLOATS and saturate:
        top = EIGHT_BIT_FLOATS[target]
        real = computed(source) if is_float(source) else "float32"
        x = x if source == real else call(f"cast_{real}", x)
        x = call("max", call("min", x, top, dtype=real), -top, dtype=real)
    if target == SCALE and source != SCALE:
        x = _power_of_two(call("cast_float32", x), saturate, mode)
    return call(f"cast_{target}", x)


def _power_of_two(x: Expr, saturate: bool, mode: str) -> Expr:
    """Return the power of two of x's magnitude that an eight-bit scale holds; NaN for infinity."""
    f = of_expressions("int32")
    bits = f("bitand", f("bits_int32", x), 0x7FFFFFFF)
    carry = ROUND_UP[mode]
    up = f("add", bits, carry)
    if mode == "nearest":  # ties go up, except at the least value
        up = f("where", f("le", bits, LEAST), bits, up)
    exponent = f("shr", up, 23)
    if saturate:
        exponent = f("min", exponent, 254)
    exponent = f("where", f("ge", bits, EXPONENT << 23), 255, exponent)
    result = f("where", f("eq", exponent, 0), LEAST, f("shl", exponent, 23))
    result = f("where", f("eq", exponent, 255), 0x7FC00000, result)
    return call("bits_float32", result)


def convert(x: Array, target: DType, *, saturate: bool = True, mode: str = "up") -> Array:
    """Convert an array as `converted` does; strings are read and written as in Python."""
    if target == "string":
        return np.asarray(as_computed(x).astype(np.str_)).astype(object)
    if dtype_of(x) == "string":
        return np.asarray(x).astype(np.str_).astype(np.float64).astype(numpy_dtype(target))
    x = as_computed(x)
    if target in EIGHT_BIT_FLOATS and saturate:
        top = EIGHT_BIT_FLOATS[target]
        x = np.clip(x if x.dtype.kind == "f" else x.astype(np.float32), -top, top)
    if target == SCALE:
        x = _scale(x.astype(np.float32), saturate, mode)
    with np.errstate(all="ignore"):
        return np.asarray(cast(x, target).astype(numpy_dtype(target)))


def _scale(x: Array, saturate: bool, mode: str) -> Array:
    bits = np.asarray(x).view(np.uint32) & 0x7FFFFFFF
    up = np.where((mode == "nearest") & (bits <= LEAST), bits, bits + np.uint32(ROUND_UP[mode]))
    exponent = np.minimum(up >> 23, 254) if saturate else up >> 23
    exponent = np.where(bits >= EXPONENT << 23, 255, exponent)
    result = np.where(exponent == 0, LEAST, exponent << 23)
    return np.where(exponent == 255, 0x7FC00000, result).astype(np.uint32).view(np.float32)


# Cast and CastLike.


def _target(site: Site) -> DType:
    return site.dtype(1) if site.op == "CastLike" else site.text("to", "float32")


def _types(site: Site) -> tuple[Tensor, ...]:
    return (Tensor(site.shape(), _target(site)),)


def _reference(attrs: Mapping[str, Any], args: Any) -> Any:
    to = attrs["to"] if "to" in attrs else dtype_of(args[1])
    mode = attrs.get("round_mode", "up")
    return convert(args[0], to, saturate=bool(attrs.get("saturate", 1)), mode=mode)


def _lower(low: Lowering) -> None:
    site, x = low.site, low.site.arg(0)
    source, target = site.dtype(), _target(site)
    saturate, mode = bool(site.integer("saturate", 1)), site.text("round_mode", "up")
    if source not in ITEM_BYTES or target not in ITEM_BYTES:
        site.unsupported(f"{source} to {target} has no kernel rule")
    if mode not in ROUND_UP:
        site.fail(f"round_mode is {mode!r}; there are {', '.join(ROUND_UP)}")
    if source == target:
        low.view(low.result, x)
        return
    nest = low.nest("cast")
    nest.map(
        "y",
        low.result,
        lambda axes: converted(
            nest.along(x, "x", axes), source, target, saturate=saturate, mode=mode
        ),
    )


def _fold(site: Site) -> tuple[Array | None, ...]:
    """Fold integers and bools to integers, constant floats truncated, numbers to bools."""
    elements, source = site.values[0], site.dtype()
    if elements is not None and _target(site) == "bool":
        return _truths(site.env, elements)
    if elements is None or not is_integer(_target(site)):
        return (None,)
    if is_float(source):
        fits = all(abs(float(v)) < MOST_FOLDED for v in elements.reshape(-1))
        return (np.vectorize(int, otypes=[object])(elements),) if fits else (None,)
    if not is_integer(source) and source != "bool":
        return (None,)
    return (
        np.vectorize(lambda v: int(v) if isinstance(v, bool) else v, otypes=[object])(elements),
    )


def _truths(env: ShapeEnv, elements: Array) -> tuple[Array | None, ...]:
    """Return for each element whether it is not 0, if that is known of all."""
    truths = np.empty(elements.shape, object)
    for at in np.ndindex(elements.shape):
        equal = env.equal(elements[at], 0) if is_symbolic(elements[at]) else elements[at] == 0
        if equal is None:
            return (None,)
        truths[at] = not equal
    return (truths,)


# BitCast.


def _bit_types(site: Site) -> tuple[Tensor, ...]:
    source, target = site.dtype(), dtype_of_code(site, site.integer("to"))
    if ITEM_BYTES[source] != ITEM_BYTES[target]:
        site.fail(f"elements of {source} and of {target} take different numbers of bytes")
    return (Tensor(site.shape(), target),)


def _lower_bits(low: Lowering) -> None:
    site, x = low.site, low.site.arg(0)
    source, target = site.dtype(), dtype_of_code(site, site.integer("to"))
    if source == target:
        low.view(low.result, x)
        return
    if target == "bool" or is_stored_otherwise(source) or is_stored_otherwise(target):
        site.unsupported(f"{source} as {target} has no kernel rule")
    nest = low.nest("bit_cast")
    nest.map("y", low.result, lambda axes: call(f"bits_{target}", nest.along(x, "x", axes)))


def _bit_reference(attrs: Mapping[str, Any], args: Any) -> Any:
    site = Site("BitCast", "BitCast", (), attrs)
    return same_bits(args[0], dtype_of_code(site, attrs["to"]))


RECORDS = (
    OperatorRecord("Cast", "elementwise", _types, _reference, _lower, _fold),
    OperatorRecord("CastLike", "elementwise", _types, _reference, _lower, _fold, first=15),
    OperatorRecord("BitCast", "elementwise", _bit_types, _bit_reference, _lower_bits, first=26),
)
