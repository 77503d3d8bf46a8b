"""The words of a program's text: names, dims, annotations, affine indices, attributes, tilings."""

from __future__ import annotations

import json
import re
from functools import lru_cache

from explorer.ir.affine import Affine
from explorer.ir.calls import AttrValue
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.dims import Dim, Shape, sympy
from explorer.ir.types import Annotation, Callable, Object, ShapeType, Tensor, TupleType

BARE = re.compile(r"[A-Za-z_][\w.]*(?:/[\w.]+)*", re.ASCII)


@lru_cache(maxsize=65536)
def print_name(name: str) -> str:
    """Return a name as text, in quotes if it is no word."""
    return name if BARE.fullmatch(name) else json.dumps(name)


def print_dim(dim: Dim) -> str:
    """Return an extent as text: a number, or an expression over symbols."""
    return str(dim) if isinstance(dim, int) else _symbolic(dim)


@lru_cache(maxsize=65536)
def _symbolic(dim: sympy.Expr) -> str:
    from explorer.ir.text.dim_printer import printer  # loads sympy

    text: str = printer.doprint(dim)
    return text


def print_shape(shape: Shape) -> str:
    """Return dims separated by commas."""
    return ", ".join(print_dim(d) for d in shape)


def print_type(type: Annotation) -> str:
    """Return an annotation such as float32[batch, 64]; `?` stands for unknown parts."""
    match type:
        case Tensor(None, dtype, ndim):
            return f"{dtype or '?'}[{'...' if ndim is None else f'... {ndim}'}]"
        case Tensor(shape, dtype, _):
            return f"{dtype or '?'}[{print_shape(shape or ())}]"
        case Object():
            return "object"
        case ShapeType(None, rank):
            return "shape[...]" if rank is None else f"shape[... {rank}]"
        case ShapeType(dims, _):
            return f"shape[{print_shape(dims or ())}]"
        case TupleType(items):
            return f"tuple[{', '.join(print_type(t) for t in items)}]"
        case Callable(None, result):
            return f"callable[... -> {print_type(result)}]"
        case Callable(params, result):
            param_types = ", ".join(print_type(t) for t in params or ())
            return f"callable[{param_types} -> {print_type(result)}]"


def print_affine(index: Affine) -> str:
    """Return an affine index such as `h*2 + kh - 3`, with symbolic factors in parentheses."""
    parts = [_term(name, factor) for name, factor in index.terms]
    if index.const != 0 or not parts:
        parts.append(_factor(index.const))
    text = parts[0]
    for part in parts[1:]:
        text += f" - {part[1:]}" if part.startswith("-") else f" + {part}"
    return text


def _term(name: str, factor: Dim) -> str:
    if factor == 1:
        return print_name(name)
    if factor == -1:
        return f"-{print_name(name)}"
    negative = isinstance(factor, int) and factor < 0
    size = -factor if negative else factor
    return f"{'-' if negative else ''}{print_name(name)}*{_factor(size)}"


def _factor(value: Dim) -> str:
    return str(value) if isinstance(value, int) else f"({print_dim(value)})"


def print_value(value: AttrValue) -> str:
    """Return the value of an attribute as text."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return repr(value)
        case str():
            return json.dumps(value)
        case tuple():
            return f"({', '.join(map(print_value, value))}{',' if len(value) == 1 else ''})"
        case _:
            return print_dim(value)


def print_tiling(tiling: Tiling) -> str:
    """Return a tiling as text: `{h: 4, w: 8 | micro 14 2 16, pack, depth 512}`.

    A thread block is `{m: 32, n: 16 | threads 256, each {m: 2, n: 2}, shared {k: 32}}`.
    """
    if tiling.is_thread_block:
        return _print_thread_block(tiling)
    micro = tiling.micro
    pack = ", pack" if tiling.pack else ""
    depth = f", depth {tiling.depth_block}" if tiling.depth_block else ""
    return (
        f"{{{_sizes(tiling.tile)} | micro {micro.rows} {micro.vectors} {micro.lanes}{pack}{depth}}}"
    )


def _print_thread_block(block: Tiling) -> str:
    clauses = [f"threads {block.threads}"]
    parts = (("each", block.register), ("shared", block.shared), ("parts", block.parts))
    clauses += [f"{word} {{{_sizes(sizes)}}}" for word, sizes in parts if sizes]
    if block.matrix:
        clauses.append(f"matrix {{{', '.join(map(print_name, block.matrix))}}}")
    return f"{{{_sizes(block.tile)} | {', '.join(clauses)}}}"


def _sizes(sizes: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{print_name(a)}: {n}" for a, n in sizes)
