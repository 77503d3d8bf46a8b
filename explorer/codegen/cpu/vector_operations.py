"""Scalar functions of kernels on LLVM values, one number or a vector, and their memory forms.

Raises LookupError for functions without a vector form: such loops are printed element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from explorer.codegen.cpu.half_floats import narrowed, widened
from explorer.codegen.cpu.llvm_value import (
    DOUBLE,
    FLOAT,
    LlvmValue,
    call_intrinsic,
    constant,
    element,
    like,
    suffix,
)
from explorer.codegen.cpu.llvm_value import target as compiled_target
from explorer.codegen.cpu.memory import wrapped
from explorer.codegen.cpu.vector_math import ELEMENTARY, power
from explorer.ir.dtypes import SMALL_INTEGERS, computed, is_float
from explorer.tile.rewriting.loop_form import POWERS

I8, I16, I32, I64 = (ir.IntType(n) for n in (8, 16, 32, 64))
BIT = ir.IntType(1)
CELLS = {"float32": FLOAT, "float64": DOUBLE, "int32": I32, "int64": I64, "bool": I8}
CELLS |= {"float16": I16, "bfloat16": I16, "int8": I8, "uint8": I8}
CELLS |= dict.fromkeys(SMALL_INTEGERS, I8)
KINDS = {"float32": FLOAT, "float64": DOUBLE, "int32": I32, "int64": I64, "bool": BIT}
KINDS |= {"int8": I8, "uint8": I8}
INFIX = {"add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__"}
ORDER = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=="}
ROUNDED = {"floor": "floor", "ceil": "ceil", "round": "nearbyint", "sqrt": "sqrt"}
# Instructions that return their second operand if either is NaN, with the arguments after them.
LARGEST_OR_LEAST: dict[str, dict[str, tuple[str, tuple[Any, ...]]]] = {
    "avx512f": {
        f"{kind} {op}": (f"llvm.x86.avx512.{op}.{name}.512", (I32(4),))
        for kind, name in (("v16f32", "ps"), ("v8f64", "pd"))
        for op in ("max", "min")
    },
    "avx": {
        f"{kind} {op}": (f"llvm.x86.avx.{op}.{name}.256", ())
        for kind, name in (("v8f32", "ps"), ("v4f64", "pd"))
        for op in ("max", "min")
    },
}
BORDER_BYTES = 16  # alignment of non-temporal stores, which large NumPy arrays have


def operation(
    op: str, dtype: str, args: Sequence[LlvmValue], exponent: float | None = None
) -> LlvmValue:
    """Emit a function of elements of a dtype.

    `exponent` is the second argument of pow if it is a number.
    """
    x = args[0]
    if op in INFIX:
        return getattr(x, INFIX[op])(args[1])
    if op in ORDER:
        return x.compare(ORDER[op], args[1])
    if op in ELEMENTARY:
        return ELEMENTARY[op](x)
    if op in ROUNDED:
        return x.call(f"llvm.{ROUNDED[op]}")
    if op.startswith("cast_"):
        return converted(x, dtype, op[5:])
    return _other(op, dtype, args, exponent)


def _other(op: str, dtype: str, args: Sequence[LlvmValue], exponent: float | None) -> LlvmValue:
    """Emit a function outside of the tables of `operation`."""
    x = args[0]
    match op:
        case "max" | "min":
            return extreme(op, x, args[1])
        case "neg":
            return -x if is_float(dtype) else x * -1
        case "abs":
            return x.size
        case "sign":
            return (x > 0.0).where(1.0, (x < 0.0).where(-1.0, x))
        case "isnan":
            return x.is_nan
        case "ne":
            return x.equals(args[1]) ^ True
        case "and":
            return x & args[1]
        case "or":
            return x | args[1]
        case "xor":
            return x ^ args[1]
        case "not":
            return x ^ True if dtype == "bool" else x.equals(0)
        case "where":
            return x.where(args[1], args[2])
        case "pow" if exponent in POWERS:
            assert exponent is not None
            return _small_power(x, exponent)
        case "pow":
            return power(x, args[1])
    raise LookupError(op)


def _small_power(x: LlvmValue, exponent: float) -> LlvmValue:
    """Emit a power that is a few products, a root or a reciprocal."""
    match exponent:
        case 2.0:
            return x * x
        case 3.0:
            return x * x * x
        case 0.5:
            return x.call("llvm.sqrt")
        case -1.0:
            return 1.0 / x
    return x


def extreme(op: str, x: LlvmValue, y: LlvmValue) -> LlvmValue:
    """Emit the larger or the smaller one; NaN if either is."""
    if element(x.v.type) not in (FLOAT, DOUBLE):
        return beyond(op, x, y)
    return y.is_nan.where(y, _picked(op, y, x))


def _picked(op: str, x: LlvmValue, y: LlvmValue) -> LlvmValue:
    """Emit `beyond` of floats, in one instruction where there is one: LLVM does not find it.

    It turns the larger of 0 and x into a comparison and a mask.
    """
    kind = x.v.type
    for feature, names in LARGEST_OR_LEAST.items():
        name, more = names.get(f"{suffix(kind)} {op}", ("", ()))
        if name and compiled_target().has(feature):
            return LlvmValue(x.b, call_intrinsic(x.b, name, kind, x.v, y.v, *more))
    return beyond(op, x, y)


def beyond(op: str, x: LlvmValue, y: LlvmValue) -> LlvmValue:
    """Emit the larger or the smaller one; the second one if either is NaN."""
    return x.compare(">" if op == "max" else "<", y).where(x, y)


def converted(x: LlvmValue, source: str, target: str) -> LlvmValue:
    """Convert an element to another dtype, in the type that kernels compute it in."""
    before, after = computed(source), computed(target)
    b, kind = x.b, like(x.v.type, KINDS[after])
    if after == "bool" and before != "bool":
        return x if before == "bool" else x.equals(0) ^ True
    if before != after:
        x = LlvmValue(b, _between(b, x.v, before, after, kind))
    return decoded(encoded(x, target), target) if target in ("float16", "bfloat16") else x


def _between(b: Any, v: Any, before: str, after: str, kind: Any) -> Any:
    """Emit a conversion between two types that kernels compute in."""
    if before in ("bool", "uint8"):
        return b.uitofp(v, kind) if is_float(after) else b.zext(v, kind)
    match is_float(before), is_float(after):
        case True, True:
            return b.fpext(v, kind) if after == "float64" else b.fptrunc(v, kind)
        case True, False:
            return b.fptosi(v, kind)
        case False, True:
            return b.sitofp(v, kind)
    is_wider = after == "int64" or before == "int8"
    return b.sext(v, kind) if is_wider else b.trunc(v, kind)


def decoded(x: LlvmValue, dtype: str) -> LlvmValue:
    """Return the value of a loaded element."""
    b = x.b
    match dtype:
        case "bool":
            return x.equals(0) ^ True
        case "float16":
            return LlvmValue(b, widened(b, x.v))
        case "int2" | "int4" | "uint2" | "uint4":
            return LlvmValue(b, wrapped(b, x.v, dtype))
        case "bfloat16":
            bits = LlvmValue(b, b.zext(x.v, like(x.v.type, I32)))
            return (bits << 16).as_float()
    return x


def encoded(x: LlvmValue, dtype: str) -> LlvmValue:
    """Return the stored form of a value."""
    b = x.b
    match dtype:
        case "bool":
            return LlvmValue(b, b.zext(x.v, like(x.v.type, I8)))
        case "float16":
            return LlvmValue(b, narrowed(b, x.v))
        case "bfloat16":
            return _encoded_bfloat(x)
    return x


def _encoded_bfloat(x: LlvmValue) -> LlvmValue:
    """Round to the nearest bfloat16, ties to even; NaN stays NaN."""
    b, bits = x.b, x.bits
    high = LlvmValue(b, b.lshr(bits.v, bits.of(16)))
    rounded = bits + ((high & 1) + 0x7FFF)
    near = LlvmValue(b, b.lshr(rounded.v, rounded.of(16)))
    code = x.is_nan.where((high & 0x8000) | 0x7FC0, near)
    return LlvmValue(b, b.trunc(code.v, like(x.v.type, I16)))


def splat(x: LlvmValue, lanes: int) -> LlvmValue:
    """Return a vector of one value."""
    b, kind = x.b, ir.VectorType(x.v.type, lanes)
    none = ir.Constant(kind, ir.Undefined)
    same = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
    return LlvmValue(b, b.shuffle_vector(b.insert_element(none, x.v, I32(0)), none, same))


def load(b: Any, at: Any, dtype: str, lanes: int, mask: Any = None) -> LlvmValue:
    """Load elements: one, a vector at any alignment, or its masked lanes."""
    return decoded(elements(b, at, dtype, lanes, mask), dtype)


def elements(b: Any, at: Any, dtype: str, lanes: int, mask: Any = None) -> LlvmValue:
    """Load elements in their stored form."""
    cell = CELLS[dtype]
    if not lanes:
        return LlvmValue(b, b.load(at))
    kind = ir.VectorType(cell, lanes)
    place, size = b.bitcast(at, kind.as_pointer()), _bytes(cell)
    if mask is None:
        return LlvmValue(b, b.load(place, align=size))
    name = f"llvm.masked.load.{suffix(kind)}.p0"
    zero = constant(kind, 0 if isinstance(cell, ir.IntType) else 0.0)
    return LlvmValue(b, call_intrinsic(b, name, kind, place, I32(size), mask, zero))


def store(
    b: Any, at: Any, value: LlvmValue, dtype: str, mask: Any = None, past: bool = False
) -> None:
    """Store a vector, or its masked lanes.

    A whole vector may bypass the caches (`past`), to an address at a whole `BORDER_BYTES`.
    """
    stored = encoded(value, dtype)
    kind, size = stored.v.type, _bytes(CELLS[dtype])
    if not isinstance(kind, ir.VectorType):
        b.store(stored.v, at)
        return
    place = b.bitcast(at, kind.as_pointer())
    if mask is None:
        instruction = b.store(stored.v, place, align=BORDER_BYTES if past else size)
        if past:
            instruction.set_metadata("nontemporal", b.module.add_metadata([I32(1)]))
        return
    if _is_first_alone(mask):  # LLVM 22 stores all 32 bits of a masked lane that was cut to 16
        b.store(b.extract_element(stored.v, I32(0)), at, align=size)
        return
    name = f"llvm.masked.store.{suffix(kind)}.p0"
    call_intrinsic(b, name, ir.VoidType(), stored.v, place, I32(size), mask)


def _is_first_alone(mask: Any) -> bool:
    """Return True if a mask is a constant of the first lane only."""
    lanes = mask.constant if isinstance(mask, ir.Constant) else None
    return isinstance(lanes, (list, tuple)) and [_bit(x) for x in lanes] == [1] + [0] * (
        len(lanes) - 1
    )


def _bit(x: Any) -> int:
    return int(x.constant if isinstance(x, ir.Constant) else x)


def _bytes(cell: Any) -> int:
    return {FLOAT: 4, DOUBLE: 8}.get(cell) or int(cell.width) // 8
