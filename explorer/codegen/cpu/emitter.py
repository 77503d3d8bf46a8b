"""Python text of CPU kernels: lines, loops, stores, and scalar expressions of tile programs.

Common subexpressions are printed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from explorer.codegen.cpu.vector_math import ELEMENTARY
from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.dims import Dim, is_symbolic, sympy
from explorer.ir.dtypes import (
    NARROW_FLOATS,
    DType,
    computed,
    integer_limits,
    is_integer,
    is_stored_otherwise,
    numpy_dtype,
)
from explorer.ir.kernel import Const, IndexValue
from explorer.ir.scalar_functions import returns_bool
from explorer.ir.tile_program import Do, Fetch, Span, TileExpr, dtype_of_tile

INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
FLOAT = ("float32", "float64")
NUMBER = {
    "float32": "F",
    "float64": "D",
    "int64": "I",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "B",
}


def dim_text(dim: Dim) -> str:
    """Return a dim in integer arithmetic over the locals `n_<symbol>`."""
    if isinstance(dim, int):
        return str(dim)
    match dim:
        case sympy.Integer():
            return str(int(dim))
        case sympy.Symbol():
            return symbol_name(dim.name)
        case sympy.Add():
            return "(" + " + ".join(dim_text(a) for a in dim.args) + ")"
        case sympy.Mul() if sympy.fraction(dim)[1] == 1:
            return "(" + " * ".join(dim_text(a) for a in dim.args) + ")"
        case sympy.Pow() if dim.exp.is_Integer and dim.exp > 0:
            return "(" + " * ".join([dim_text(dim.base)] * int(dim.exp)) + ")"
        case sympy.floor() | sympy.Mul():  # sympy drops the floor of provable integers
            quotient = dim.args[0] if isinstance(dim, sympy.floor) else dim
            top, bottom = sympy.fraction(sympy.together(quotient))
            divide = "udiv" if _never_negative(top) else "sdiv_down"  # (24 - n + 22) // 23
            return f"{divide}({dim_text(top)}, {dim_text(bottom)})"
        case sympy.Max():
            return "max(" + ", ".join(dim_text(a) for a in dim.args) + ")"
        case sympy.Min():
            return "min(" + ", ".join(dim_text(a) for a in dim.args) + ")"
    raise ValueError(f"a dim of a kernel may consist of + - * // max min; it is {dim}")


def _never_negative(dim: Dim) -> bool:
    """Return True if a dim is at least 0 for any extents, by the signs of its parts."""
    match dim:
        case int() | sympy.Integer():
            return int(dim) >= 0
        case sympy.Symbol():
            return True
        case sympy.floor():
            top, bottom = sympy.fraction(sympy.together(dim.args[0]))
            return _never_negative(top) and _never_negative(bottom)
        case sympy.Max():
            return any(map(_never_negative, dim.args))
        case sympy.Add() | sympy.Mul() | sympy.Min():
            return all(map(_never_negative, dim.args))
        case sympy.Pow():
            return _never_negative(dim.base)
    return False


def symbol_name(name: str) -> str:
    """Return the local that holds a symbol's value; special characters are escaped."""
    plain = "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in name)
    return f"n_{plain}"


def affine_text(a: Affine) -> str:
    """Return an affine value as an integer expression."""
    parts = [n if c == 1 else f"{n} * {dim_text(c)}" for n, c in a.terms]
    if a.const != 0 or not parts:
        parts.append(dim_text(a.const))
    return " + ".join(parts)


@dataclass(slots=True)
class Printer:
    """A printer of expressions as assignments to `_e0_0`, `_e0_1`, ...

    Equal parts are computed once.
    """

    tag: int = 0  # unique in a kernel, as a name has one type there
    lines: list[str] = field(default_factory=list)
    names: dict[TileExpr, str] = field(default_factory=dict)

    def name(self, e: TileExpr) -> str:
        """Return the text that stands for an expression after its lines."""
        if isinstance(e, Const):
            return self.constant(e)
        if e not in self.names:
            right = self.right(e)
            self.names[e] = f"_e{self.tag}_{len(self.names)}"
            self.lines.append(f"{self.names[e]} = {right}")
        return self.names[e]

    def constant(self, c: Const) -> str:
        """Return a typed number."""
        number = number_of(c.dtype)
        if is_symbolic(c.value):
            text = f"{number}({dim_text(c.value)})"
            return f"to_{c.dtype}({text})" if is_stored_otherwise(c.dtype) else text
        if number in ("F", "D"):
            value = float(_as_stored(c.value, c.dtype))
            if value != value:
                return f"{number}(math.nan)"
            if value in (float("inf"), float("-inf")):
                return f"{number}({'-' if value < 0 else ''}math.inf)"
            return f"{number}({value!r})"
        if c.dtype == "bool":
            return str(bool(c.value))
        return f"{number}({int(_as_stored(int(c.value), c.dtype))})"

    def fetch(self, f: Fetch) -> str:
        """Return a load."""
        offset = affine_text(f.offset)
        for index, stride, extent in f.dynamic:
            at = f"min(max(I({self.name(index)}), I(0)), I({dim_text(extent)} - 1))"
            offset += f" + {at} * {dim_text(stride)}"
        return f"ld_{f.buffer.dtype}({f.buffer.name}, {offset})"

    def right(self, e: TileExpr) -> str:
        """Return the right side of the assignment for an expression."""
        match e:
            case Fetch():
                return self.fetch(e)
            case IndexValue(index):
                return f"I({affine_text(index)})"
            case Do(op, args):
                return self.function(op, args)
            case Const():
                return self.constant(e)

    def function(self, op: str, args: tuple[TileExpr, ...]) -> str:
        """Return a scalar function's text, by the dtype of its first argument."""
        source = dtype_of_tile(args[0])
        dtype = computed(source)
        real = dtype in FLOAT
        if op in ("max", "min") and real and len(args) == 2:
            return self.bounded(op, args)
        powers = (2, 3, 0.5, -1, 1) if real else (2, 3, 1)
        if op == "pow" and isinstance(args[1], Const) and args[1].value in powers:
            text = self.power(self.name(args[0]), float(args[1].value), dtype)
            return self.narrowed(text, dtype, op)
        return self.applied(op, source, [self.name(x) for x in args])

    def applied(self, op: str, source: DType, a: Sequence[str]) -> str:
        """Return the text of a scalar function of named values, the first of a dtype."""
        dtype = computed(source)
        real = dtype in FLOAT
        match op:
            case "add" | "sub" | "mul" | "eq" | "ne" | "lt" | "le" | "gt" | "ge":
                if op == "mul" and dtype == "bool":
                    return f"{a[0]} & {a[1]}"
                return self.narrowed(f"{a[0]} {INFIX[op]} {a[1]}", dtype, op)
            case "div":
                return f"{a[0]} / {a[1]}" if real else f"truncated_div({a[0]}, {a[1]})"
            case "floordiv":
                return f"{'floor_div' if real else 'integer_floor_div'}({a[0]}, {a[1]})"
            case "mod":
                return f"{'floor_mod' if real else 'integer_mod'}({a[0]}, {a[1]})"
            case "pow" if not real:
                n = "U64" if dtype == "uint64" else "I"
                return self.narrowed(f"integer_power({n}({a[0]}), {n}({a[1]}), {n}(1))", dtype, op)
            case "pow":
                return f"{'power32' if dtype == 'float32' else 'power'}({a[0]}, {a[1]})"
            case "max" | "min":
                return f"{op}imum({a[0]}, {a[1]})"
            case "neg":
                return self.narrowed(f"-{a[0]}", dtype, op)
            case "and" | "or" | "xor":
                return f"{a[0]} {dict(zip(('and', 'or', 'xor'), '&|^', strict=True))[op]} {a[1]}"
            case "not":
                return f"not {a[0]}" if dtype != "bool" else f"{a[0]} ^ True"
            case "where":
                return f"select({a[0]}, {a[1]}, {a[2]})"
            case "bitnot":
                return f"bit_not({a[0]})"
            case "bitand" | "bitor" | "bitxor" | "shl" | "shr":
                return f"{op}_({a[0]}, {a[1]})"
            case _ if op in ELEMENTARY and real:
                return f"{op}{dtype[-2:]}({a[0]})"
            case _ if op.startswith("cast_"):
                return self.cast(a[0], source, op.removeprefix("cast_"))
            case _ if op.startswith("bits_"):
                return f"as_{op.removeprefix('bits_')}({a[0]})"
            case _:
                return f"{op}_({a[0]})"

    def narrowed(self, text: str, dtype: DType, op: str) -> str:
        """Return an integer narrowed to its dtype: Numba widens small integers."""
        if is_integer(dtype) and dtype != "int64" and not returns_bool(op):
            return f"{NUMBER[dtype]}({text})"
        return text

    def bounded(self, op: str, args: tuple[TileExpr, ...]) -> str:
        """Return max or min; with a number it is one instruction and keeps NaN."""
        x, y = args if isinstance(args[1], Const) else (args[1], args[0])
        if isinstance(y, Const) and isinstance(y.value, (int, float)) and y.value == y.value:
            return f"{'at_least' if op == 'max' else 'at_most'}({self.name(x)}, {self.name(y)})"
        return f"{op}imum({self.name(args[0])}, {self.name(args[1])})"

    def power(self, x: str, exponent: float, dtype: DType) -> str:
        """Return a small power as products."""
        unit = f"{NUMBER[dtype]}(1)"
        return {
            2.0: f"{x} * {x}",
            3.0: f"{x} * {x} * {x}",
            0.5: f"sqrt_({x})",
            -1.0: f"{unit} / {x}",
            1.0: x,
        }[exponent]

    def cast(self, x: str, source: DType, target: DType) -> str:
        """Return a conversion between dtypes."""
        if target == source:
            return x
        before, after = computed(source), computed(target)
        if after == "bool":
            return f"{x} != {NUMBER[before]}(0)"
        if before in FLOAT and is_integer(after) and after not in ("int64", "uint64"):
            x = f"{'I' if after == 'uint32' else 'I32'}({x})"  # overflow wraps
        if before == "float64" and target == "float16":
            x = f"to_odd({x})"  # rounded once, not twice
        text = x if before == after else f"{NUMBER[after]}({x})"
        return f"to_{target}({text})" if is_stored_otherwise(target) else text


def number_of(dtype: DType) -> str:
    """Return the name of the type that an element is computed in."""
    return NUMBER[computed(dtype)]


def _as_stored(value: float, dtype: DType) -> float:
    """Return a number as an element of the dtype; integers wrap."""
    if dtype in NARROW_FLOATS:
        return float(np.float64(value).astype(numpy_dtype(dtype)))
    if is_integer(dtype):
        low, high = integer_limits(dtype)
        return (int(value) - low) % (high - low + 1) + low
    return value


@dataclass(slots=True)
class Emitter:
    """The lines of a kernel's source, and the state that its statements share."""

    device: Device
    lines: list[str] = field(default_factory=list)
    header: list[str] = field(default_factory=list)
    depth: int = 2
    kernels: int = 0
    expressions: int = 0

    def line(self, text: str) -> None:
        """Append a line, indented by the loops around it."""
        self.lines.append("    " * self.depth + text)

    def bounds(self, s: Span) -> tuple[str, str]:
        """Return the first value and the end; the end is never before the first.

        Their difference is used as a count.
        """
        low, high = _ends(s)
        return low, f"max({high}, {low})" if s.clip_high or s.clip_low else high

    def loop(self, s: Span) -> None:
        """Open a loop over the values of an axis."""
        lo, hi = _ends(s)
        self.line(f"for {s.axis} in range({lo}, {hi}):")
        self.depth += 1

    def at(self, s: Span, index: TileExpr) -> None:
        """Open a branch for an index inside of a range; the axis is set to the index."""
        self.line(f"{s.axis} = I({self.expression(index)})")
        low, high = _ends(s)
        self.line(f"if {low} <= {s.axis} and {s.axis} < {high}:")
        self.depth += 1

    def store(self, f: Fetch, value: str) -> None:
        """Store a value in an element."""
        self.line(f"st_{f.buffer.dtype}({f.buffer.name}, {affine_text(f.offset)}, {value})")

    def expression(self, expr: TileExpr) -> str:
        """Print an expression, common subexpressions once; return the name of the result."""
        self.expressions += 1
        printer = Printer(self.expressions)
        name = printer.name(expr)
        for text in printer.lines:
            self.line(text)
        return name


def _ends(s: Span) -> tuple[str, str]:
    """Return the first value and the end of a loop; an end before the first means no trips."""
    lo, hi = affine_text(s.base), affine_text(s.base + s.size)
    low = f"max({lo}, 0)" if s.clip_low else lo
    return low, f"min({hi}, {dim_text(s.extent)})" if s.clip_high else hi
