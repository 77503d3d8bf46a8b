"""Scalar expressions of a thread block as text in WGSL; common subexpressions are printed once."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isinf

from explorer.codegen.cpu.emitter import affine_text
from explorer.codegen.wgsl.functions import (
    cast,
    compared_with_infinity,
    constant,
    rounded,
    same_bits,
    spell,
    wrapped,
)
from explorer.codegen.wgsl.types import SHADER_F16, value_type, workgroup_type
from explorer.errors import BadOption
from explorer.ir.dtypes import SMALL_INTEGERS
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.tile_program import REGISTER, Do, Fetch, TileExpr, dtype_of_tile

PRODUCTS = {2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}", 1.0: "{0}"}


def register(f: Fetch) -> str:
    """Return the variable of an element in registers."""
    if f.offset.terms or f.dynamic:
        raise BadOption(f"{f.buffer.name} is in registers, which have no addresses")
    return f"{f.buffer.name}_{f.offset.const}"


def is_shared(f: Fetch) -> bool:
    """Return True if an element lies in workgroup memory."""
    return f.buffer.kind == "scratch" and f.buffer.level != REGISTER


@dataclass(slots=True)
class Scalars:
    """A printer of expressions as declarations of `e0_0`, `e0_1`, ...

    Equal parts are computed once. `features` are those of the adapter that a shader uses.
    """

    tag: int
    features: frozenset[str] = frozenset()
    names: dict[TileExpr, str] = field(default_factory=dict)
    count: int = 0
    lines: list[str] = field(default_factory=list)

    def name(self, e: TileExpr) -> str:
        """Return the text that stands for an expression after its lines."""
        match e:
            case Const(value, dtype):
                return constant(value, dtype)
            case Fetch(buffer) if buffer.level == REGISTER:
                return register(e)
        if e not in self.names:
            self.names[e] = self.declare(self.right(e))
        return self.names[e]

    def declare(self, text: str) -> str:
        """Declare a name for a text; return the name."""
        name = f"e{self.tag}_{self.count}"
        self.count += 1
        self.lines.append(f"let {name} = {text};")
        return name

    def right(self, e: TileExpr) -> str:
        """Return the right side of the declaration of an expression."""
        match e:
            case Fetch():
                return self.element(e)
            case IndexValue(index):
                return affine_text(index)
            case Do(op, args):
                return self.function(op, args)
            case Const(value, dtype):
                return constant(value, dtype)

    def element(self, f: Fetch) -> str:
        """Return the value of an element in memory."""
        if not is_shared(f):
            return f"{f.buffer.name}({self.offset(f)})"
        text = f"{f.buffer.name}[{self.offset(f)}]"
        stored, type_ = workgroup_type(f.buffer.dtype, self.features), value_type(f.buffer.dtype)
        return text if stored == type_ else f"{type_}({text})"

    def offset(self, f: Fetch) -> str:
        """Return the offset of an element in its buffer; a dynamic index is clamped."""
        text = affine_text(f.offset)
        for index, stride, extent in f.dynamic:
            at = self.name(index)
            at = at if value_type(dtype_of_tile(index)) == "i32" else f"i32({at})"
            text += f" + clamp({at}, 0, {int(extent) - 1}) * {int(stride)}"
        return text

    def stored(self, value: str, f: Fetch) -> str:
        """Return a value as it is stored in an element in memory."""
        dtype = f.buffer.dtype
        if is_shared(f) and workgroup_type(dtype, self.features) == "f16":
            return f"f16({value})"
        if dtype in SMALL_INTEGERS:
            return wrapped(value, dtype)
        return rounded(value, dtype)

    def function(self, op: str, args: tuple[TileExpr, ...]) -> str:
        """Return a scalar function's text, by the dtype of its first argument."""
        source = dtype_of_tile(args[0])
        names = [self.name(a) for a in args]
        if all(isinstance(a, Const) for a in args):  # WGSL refuses overflow in constant expressions
            names[0] = self.declare(names[0])
        if op.startswith("cast_"):
            return cast(names[0], source, op.removeprefix("cast_"))
        if op.startswith("bits_"):
            return same_bits(names[0], source, op.removeprefix("bits_"))
        match op, args:
            case "pow", (_, Const(value)) if value in PRODUCTS:
                return wrapped(PRODUCTS[float(value)].format(names[0]), source)
            case "eq" | "ne", (_, Const(float() as value)) if isinf(value):
                return compared_with_infinity(op, names[0], value)
            case "eq" | "ne", (Const(float() as value), _) if isinf(value):
                return compared_with_infinity(op, names[1], value)
        return spell(op, dtype_of_tile(args[1]) if op == "where" else source, names)


def native_declarations(features: frozenset[str]) -> dict[str, str]:
    """Return declarations that replace those of the library where `shader-f16` is used."""
    if SHADER_F16 not in features:
        return {}
    return {"round_float16": "fn round_float16(x: f32) -> f32 { return f32(f16(x)); }"}
