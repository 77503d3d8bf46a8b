"""A program as readable lines: one per binding, then its kernel's computes and its tile.

This is a reading aid. The text that parses back is `explorer.ir.text.program_text`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.compiler.operators import is_call
from explorer.ir.affine import Affine
from explorer.ir.by_identity import by_identity
from explorer.ir.calls import (
    Branch,
    FunctionCall,
    Gradient,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    Var,
    View,
)
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Dim
from explorer.ir.kernel import Apply, Axis, Compute, Const, Expr, IndexValue, Read
from explorer.ir.program import Binding, Function, Program
from explorer.ir.types import Annotation, Tensor, TupleType
from explorer.ops import family

_SHORT = {"float": "f", "uint": "u", "int": "i"}
_INFIX = {
    "add": "+",
    "sub": "−",
    "mul": "·",
    "div": "/",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "≤",
    "gt": ">",
    "ge": "≥",
    "and": "and",
    "or": "or",
    "floordiv": "//",
    "mod": "%",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text with its source operators, and their family if it is a call."""

    text: str
    ops: tuple[str, ...] = ()
    family: str = ""


def _lines(program: Program) -> list[Line]:
    outline: list[Line] = []
    for function in program.functions:
        outline.append(Line(_signature(function)))
        for binding in function.body:
            outline += lines_of(binding)
        outputs = ", ".join(v.name for v in function.outputs)
        outline.append(Line(f"  return {outputs}"))
    return outline


lines = by_identity(_lines, most=8)
"""The whole program, not to be changed: the next step begins with the lines that one ends with."""


def _signature(function: Function) -> str:
    params = ", ".join(f"{p.name}: {type_text(p.type)}" for p in function.params)
    return f"def {function.name}({params}):"


def binding_lines(binding: Binding) -> Iterator[Line]:
    """Yield the lines of a binding: itself, its kernel's computes and its tile."""
    ops = tuple(sorted(binding.origin))
    kind = family(binding) if is_call(binding) else ""
    names = ", ".join(v.name for v in binding.vars)
    shapes = ", ".join(type_text(v.type) for v in binding.vars)
    count = f", {len(ops)} operators in one" if len(ops) > 1 else ""
    note = f"  # {shapes}{count}" if shapes or count else ""
    yield Line(f"  {names} = {_call(binding)}{note}", ops, kind)
    if isinstance(binding.expr, KernelCall):
        for compute in binding.expr.kernel.computes:
            yield Line(
                "    " + compute_text(compute),
                tuple(sorted(compute.origin or binding.origin)),
                kind,
            )
        tiling = binding.expr.tiling
        if tiling is not None:
            word = "thread block" if tiling.is_thread_block else "tile"
            yield Line(f"    {word} {tiling_text(tiling)}", ops, kind)


def _lines_of(binding: Binding) -> tuple[Line, ...]:
    return tuple(binding_lines(binding))


lines_of = by_identity(_lines_of)
"""The lines of a binding, which most steps leave as it is."""


def binding_text(binding: Binding) -> str:
    """Return a binding in one line, without its kernel's loops."""
    return f"{', '.join(v.name for v in binding.vars)} = {_call(binding)}"


def _call(binding: Binding) -> str:
    match binding.expr:
        case OpCall(op, args, attrs):
            named = [f"{n}={v}" for n, v in attrs]
            return f"{op}({', '.join([*_names(args), *named])})"
        case KernelCall(kernel, args, _):
            return f"{kernel.name}({', '.join(_names(args))})"
        case View(arg, offset):
            return f"view({arg.name}{f', {offset}' if offset != 0 else ''})"
        case LibraryCall(library, function, args, _):
            return f"library {library}.{function}({', '.join(_names(args))})"
        case FunctionCall(function, args):
            return f"call {function}({', '.join(_names(args))})"
        case Gradient(function, args, wrt, _):
            return (
                f"gradient of {function}({', '.join(_names(args))}) by {', '.join(map(str, wrt))}"
            )
        case MatchCast(arg):
            return f"match_cast({arg.name})"
        case ShapeOf(dims, _):
            return f"shape({', '.join(map(str, dims))})"
        case Branch(cond, then, orelse, args):
            return f"{then}({', '.join(_names(args))}) if {cond.name} else {orelse}(…)"
        case Loop(body, trip, cond, state, _, _):
            while_ = f" while {cond.name}" if cond else ""
            limit = f", at most {trip.name} times" if trip else ""
            return f"loop {body}({', '.join(_names(state))}){while_}{limit}"


def _names(args: Sequence[Var | None]) -> list[str]:
    return ["none" if a is None else a.name for a in args]


def type_text(annotation: Annotation) -> str:
    """Return an annotation in short form: f32[batch, 256]."""
    match annotation:
        case Tensor(shape, dtype, _):
            dims = "?" if shape is None else ", ".join(map(str, shape))
            return f"{dtype_text(dtype or '?')}[{dims}]"
        case TupleType(items):
            return "(" + ", ".join(map(type_text, items)) + ")"
    return ""


def dtype_text(dtype: str) -> str:
    """Return float32 as f32."""
    for long, short in _SHORT.items():
        if dtype.startswith(long):
            return short + dtype.removeprefix(long)
    return dtype


def tiling_text(tiling: Tiling) -> str:
    """Return a tile by its axes, and the register tile of its contractions, or its threads."""
    if tiling.is_thread_block:
        return tiling.words
    tile = " ".join(f"{axis}={size}" for axis, size in tiling.tile) or "everything"
    micro = tiling.micro
    return f"{tile}, registers {micro.rows}×{micro.columns}{', packed' if tiling.pack else ''}"


def compute_text(c: Compute) -> str:
    """Return a loop nest as one line: `y[n, o] = sum over k of x[n, k] · w[o, k]`."""
    target = ", ".join(affine_text(i) for i in c.target)
    over = f"{c.combiner} over {', '.join(_axis(a) for a in c.reduce)} of " if c.combiner else ""
    return f"{c.out}[{target}] = {over}{expr_text(c.expr)}"


def _axis(axis: Axis) -> str:
    return f"{axis.name}<{axis.extent}"


def affine_text(index: Affine) -> str:
    """Return an index expression: `2·h + kh − 1`."""
    parts: list[tuple[Dim, str]] = [(c, n) for n, c in index.terms]
    text = " + ".join(n if c == 1 else f"{c}·{n}" for c, n in parts)
    if index.const == 0 and text:
        return text
    return f"{text} + {index.const}".replace("+ -", "− ") if text else str(index.const)


def expr_text(expr: Expr, inside: bool = False) -> str:
    """Return a scalar expression."""
    match expr:
        case Const(value, _):
            return f"{value:.6g}" if isinstance(value, float) else str(value)
        case IndexValue(index):
            return affine_text(index)
        case Read(tensor, index, fill):
            at = ", ".join(affine_text(i) if isinstance(i, Affine) else expr_text(i) for i in index)
            return f"{tensor}[{at}]" + (f" else {fill:g}" if fill is not None else "")
        case Apply(op, (a, b)) if op in _INFIX:
            text = f"{expr_text(a, True)} {_INFIX[op]} {expr_text(b, True)}"
            return f"({text})" if inside else text
        case Apply(op, args):
            return f"{op}({', '.join(expr_text(a) for a in args)})"
