"""Parsers of the parts of a program's text: dims, annotations, indices, expressions, values."""

from __future__ import annotations

from typing import Any

from explorer.ir.affine import Affine, affine
from explorer.ir.calls import AttrValue
from explorer.ir.decisions.tiling import Micro, Tiling, thread_block
from explorer.ir.dims import Dim, Shape, floor_div, simplify, symbol, sympy
from explorer.ir.kernel import Apply, Axis, Const, Expr, IndexValue, Read
from explorer.ir.text.printer import INFIX, LEVEL
from explorer.ir.text.text_lines import Line
from explorer.ir.types import ITEM_BYTES, Annotation, Callable, Object, ShapeType, Tensor, TupleType

_OPS = {mark: op for op, mark in INFIX.items()}
_DIM_FUNCTIONS = ("floor", "max", "min", "mod")


# Dims.


def parse_dim(line: Line) -> Dim:
    """Parse a sum of products of numbers, symbols and functions of dims."""
    total: Any = _dim_product(line, -1 if line.accept("-") else 1)
    while line.next in ("+", "-") and line.kind == "mark":
        sign = -1 if line.take() == "-" else 1
        total = total + _dim_product(line, sign)
    return total if isinstance(total, int) else simplify(total)


def _dim_product(line: Line, sign: int) -> Any:
    value: Any = sign * _dim_power(line)
    while line.next in ("*", "/") and line.kind == "mark":
        divide = line.take() == "/"
        factor = _dim_power(line)
        value = sympy.sympify(value) / factor if divide else value * factor
    return value


def _dim_power(line: Line) -> Any:
    value = _dim_atom(line)
    return value ** line.integer() if line.accept("**") else value


def _dim_atom(line: Line) -> Any:
    if line.kind == "number":
        return line.integer()
    if line.accept("("):
        value = parse_dim(line)
        line.expect(")")
        return value
    if line.kind == "word" and line.next in _DIM_FUNCTIONS and line.after() == "(":
        return _dim_function(line, line.take())
    return symbol(line.name())


def _dim_function(line: Line, name: str) -> Any:
    line.expect("(")
    args = [parse_dim(line)]
    while line.accept(","):
        args.append(parse_dim(line))
    line.expect(")")
    match name, args:
        case "floor", [top, bottom]:
            return floor_div(top, bottom)
        case "mod", [top, bottom]:
            return sympy.Mod(top, bottom)
        case "max", _:
            return sympy.Max(*args)
        case "min", _:
            return sympy.Min(*args)
    line.fail(f"the arguments of {name}")


def parse_shape(line: Line, close: str) -> Shape:
    """Parse dims up to a closing mark."""
    dims: list[Dim] = []
    while not line.accept(close):
        if dims:
            line.expect(",")
        dims.append(parse_dim(line))
    return tuple(dims)


# Annotations.

HOST_DTYPES = ("string", "complex64", "complex128")  # of values that only libraries handle


def parse_type(line: Line) -> Annotation:
    """Parse an annotation such as `float32[batch, 64]`, `?[...]` or `object`."""
    head = "?" if line.accept("?") else line.name()
    if head == "object":
        return Object()
    line.expect("[")
    if head == "tuple":
        return TupleType(_types(line, "]"))
    if head == "callable":
        return _callable(line)
    if head not in ITEM_BYTES and head not in HOST_DTYPES and head not in ("?", "shape"):
        line.fail("a dtype")
    unknown_dims = line.accept("...")
    rank = line.integer() if unknown_dims and line.kind == "number" else None
    shape = None if unknown_dims else parse_shape(line, "]")
    if unknown_dims:
        line.expect("]")
    if head == "shape":
        return ShapeType(shape, rank)
    return Tensor(shape, None if head == "?" else head, rank)


def _types(line: Line, close: str) -> tuple[Annotation, ...]:
    types: list[Annotation] = []
    while not line.accept(close):
        if types:
            line.expect(",")
        types.append(parse_type(line))
    return tuple(types)


def _callable(line: Line) -> Callable:
    params = None if line.accept("...") else _types(line, "->")
    if params is None:
        line.expect("->")
    result = parse_type(line)
    line.expect("]")
    return Callable(params, result)


# Affine indices and scalar expressions.


def parse_affine(line: Line) -> Affine:
    """Parse an affine index such as `h*2 + kh - 3`."""
    terms: dict[str, Dim] = {}
    const: Dim = 0
    sign = -1 if line.accept("-") else 1
    while True:
        if line.kind in ("word", "string"):
            name = line.name()
            factor = _factor(line) if line.accept("*") else 1
            terms[name] = terms.get(name, 0) + factor * sign
        else:
            const = const + _factor(line) * sign
        if line.next not in ("+", "-") or line.kind != "mark":
            return affine(terms, const)
        sign = -1 if line.take() == "-" else 1


def _factor(line: Line) -> Dim:
    if not line.accept("("):
        return line.integer()
    value = parse_dim(line)
    line.expect(")")
    return value


def parse_expr(line: Line, level: int = 1) -> Expr:
    """Parse a scalar expression whose operators bind at least as tightly as `level`."""
    left = _unary(line)
    while line.kind == "mark" and LEVEL.get(line.next, 0) >= level:
        mark = line.take()
        left = Apply(_OPS[mark], (left, parse_expr(line, LEVEL[mark] + 1)))
    return left


def _unary(line: Line) -> Expr:
    if line.kind == "mark" and line.next == "-":
        following = line.tokens[line.at + 1][0]
        if following == "number" or line.after() in ("inf", "nan"):
            return _atom(line)
        line.take()
        return Apply("neg", (_unary(line),))
    return _atom(line)


def _atom(line: Line) -> Expr:
    if line.accept("("):
        inner = parse_expr(line)
        line.expect(")")
        return inner
    if line.kind == "string" or (line.kind == "word" and line.after() == "["):
        return _read(line)
    if line.kind == "word" and line.after() == "(":
        return _function(line)
    return _const(line)


def _read(line: Line) -> Read:
    tensor = line.name()
    line.expect("[")
    index: list[Affine | Expr] = []
    fill: float | None = None
    while not line.accept("]"):
        if line.accept("else"):
            fill = parse_number(line)
            continue
        if index:
            line.expect(",")
        index.append(_index(line))
    return Read(tensor, tuple(index), fill)


def _index(line: Line) -> Affine | Expr:
    if not line.accept("{"):
        return parse_affine(line)
    inner = parse_expr(line)
    line.expect("}")
    return inner


def _function(line: Line) -> Expr:
    name = line.take()
    line.expect("(")
    if name == "index":
        place = parse_affine(line)
        line.expect(")")
        return IndexValue(place)
    if name == "dim":
        dim = parse_dim(line)
        line.expect(",")
        dtype = line.name()
        line.expect(")")
        return Const(dim, dtype)
    args: list[Expr] = []
    while not line.accept(")"):
        if args:
            line.expect(",")
        args.append(parse_expr(line))
    return Apply(name, tuple(args))


def _const(line: Line) -> Const:
    if line.next in ("true", "false"):
        value: Any = line.take() == "true"
        own = "bool"
    else:
        value = parse_number(line)
        own = "int64" if isinstance(value, int) else "float32"
    return Const(value, line.name() if line.accept(":") else own)


def parse_number(line: Line) -> Any:
    """Parse a number: an int if it is written as one, else a float."""
    sign = -1 if line.accept("-") else 1
    if line.next in ("inf", "nan"):
        return sign * float(line.take())
    if line.kind != "number":
        line.fail("a number")
    text = line.take()
    return sign * (int(text) if text.isdigit() else float(text))


def parse_axes(line: Line, close: str) -> tuple[Axis, ...]:
    """Parse `h < 55, w < 55` up to a closing mark."""
    axes: list[Axis] = []
    while not line.accept(close):
        if axes:
            line.expect(",")
        name = line.name()
        line.expect("<")
        axes.append(Axis(name, parse_dim(line)))
    return tuple(axes)


# Attributes and tilings.


def parse_value(line: Line) -> AttrValue:
    """Parse the value of an attribute."""
    if line.kind == "string":
        return line.string()
    if line.accept("("):
        items: list[AttrValue] = []
        while not line.accept(")"):
            items.append(parse_value(line))
            if not line.accept(","):
                line.expect(")")
                break
        return tuple(items)
    if line.next in ("true", "false", "none") and line.kind == "word":
        return {"true": True, "false": False, "none": None}[line.take()]
    if _is_float(line):
        value: float = parse_number(line)
        return value
    return parse_dim(line)


def _is_float(line: Line) -> bool:
    at = line.at + (line.next == "-")
    kind, text = line.tokens[at]
    return text in ("inf", "nan") or (kind == "number" and not text.isdigit())


def parse_tiling(line: Line) -> Tiling:
    """Parse a tiling: `{h: 4 | micro 14 2 16, pack}` or `{m: 32 | threads 256, each {m: 2}}`."""
    line.expect("{")
    sizes = _sizes(line, "|")
    if line.accept("threads"):
        return _block(line, sizes)
    line.expect("micro")
    micro = Micro(line.integer(), line.integer(), line.integer())
    pack, depth = False, 0
    while line.accept(","):
        if line.accept("pack"):
            pack = True
        else:
            line.expect("depth")
            depth = line.integer()
    line.expect("}")
    return Tiling(sizes, micro, pack, depth)


def _block(line: Line, tile: tuple[tuple[str, int], ...]) -> Tiling:
    threads, parts = line.integer(), dict[str, tuple[tuple[str, int], ...]]()
    matrix: list[str] = []
    while line.accept(","):
        if line.accept("matrix"):
            line.expect("{")
            while not line.accept("}"):
                if matrix:
                    line.expect(",")
                matrix.append(line.name())
            continue
        word = next((w for w in ("each", "shared", "parts") if line.accept(w)), "")
        if not word:
            line.fail("each, shared, parts or matrix")
        line.expect("{")
        parts[word] = _sizes(line, "}")
    line.expect("}")
    each, shared, shares = (parts.get(word, ()) for word in ("each", "shared", "parts"))
    return thread_block(tile, threads, each, shared, shares, tuple(matrix))


def _sizes(line: Line, close: str) -> tuple[tuple[str, int], ...]:
    """Parse `h: 4, w: 8` up to a closing mark."""
    sizes: list[tuple[str, int]] = []
    while not line.accept(close):
        if sizes:
            line.expect(",")
        name = line.name()
        line.expect(":")
        sizes.append((name, line.integer()))
    return tuple(sizes)
