"""Canonical names of kernels, and kernels as text without names.

Equal kernels of different models are compiled once, as they are equal under canonical names. Equal
texts mean equal work: `kernel_text` has no names of axes and tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from operator import is_
from typing import Any, TypeVar

from explorer.ir.affine import Affine, affine, var
from explorer.ir.by_identity import by_identity
from explorer.ir.decisions.tiling import AxisSizes, Tiling
from explorer.ir.dims import (
    LARGEST,
    Dim,
    ShapeEnv,
    SymbolBound,
    floor_of,
    is_symbol,
    is_symbolic,
    parts_of,
    simplify,
    symbol,
    symbols_of,
    sympy,
    text_of_dim,
)
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    IndexValue,
    Kernel,
    Read,
    rename_tensors,
    substitute,
)
from explorer.ir.kernels.rebase import rebased
from explorer.ir.symbols import dims_in_order

Node = TypeVar("Node")
PLAIN = frozenset((str, int, float, bool, type(None), frozenset))  # types that hold no dims


def text_of(kernel: Kernel) -> str:
    """Return all of a kernel as text, the same in every process: sets are sorted."""
    return f"{sorted(kernel.constants)} {replace(kernel, constants=frozenset())}"


def canonical(kernel: Kernel) -> tuple[Kernel, dict[str, str]]:
    """Return the kernel under canonical names, and the new name of each axis.

    Inputs are `x0, x1, ..` (constants `w0, ..`), the output is `y` (several are `y0, y1, ..`),
    other tensors `t0, ..`, axes `i0, ..` and reduced axes `r0, ..`. The kernel begins at the front
    of its tensors.
    """
    kernel = rebased(kernel).kernel
    names: dict[str, str] = {}
    for n, tensor in enumerate(kernel.inputs):
        names[tensor] = f"{'w' if tensor in kernel.constants else 'x'}{n}"
    for n, tensor in enumerate(kernel.outputs):
        names[tensor] = "y" if len(kernel.outputs) == 1 else f"y{n}"
    for c in kernel.computes:
        names.setdefault(c.out, f"t{len(names)}")
    renamed = rename_tensors(kernel, names)
    used = {*renamed.inputs, *(c.out for c in renamed.computes)}
    tensors = tuple(sorted((t for t in renamed.tensors if t.name in used), key=lambda t: t.name))
    axes: dict[str, str] = {}
    computes = tuple(_with_canonical_axes(c, axes) for c in renamed.computes)
    return replace(renamed, name="kernel", tensors=tensors, computes=computes), axes


def canonical_symbols(kernel: Kernel, env: ShapeEnv) -> tuple[Kernel, ShapeEnv, dict[str, Dim]]:
    """Return the kernel with symbols `s0, ..` in order of occurrence, their bounds and values.

    Each new symbol stands for a symbol, or for a quotient of symbols and the like, which the kernel
    need not know. So kernels of all stages of an image network are one kernel.

        x[n, (h - 1) // 2 + 1]  ->  x[s0, s1]; s1 = (h - 1) // 2 + 1
    """
    parts = dict.fromkeys(part for dim in dims_in_order(kernel) for part in _opaque_parts(dim, env))
    values: dict[str, Dim] = {}
    replacements: dict[Any, Any] = {}
    bounds: list[SymbolBound] = []
    for part in parts:
        low, high = env.bounds(part)
        gone = min(0, low)  # symbols are never negative, so the part is shifted
        name = f"s{len(values)}"
        values[name] = simplify(part - gone)
        replacements[part] = symbol(name) + gone
        if not is_symbol(part):
            most = None if high is None else high - gone
            bounds.append(SymbolBound(name, low - gone, most, env.hint(part) - gone))
        elif env.only(frozenset((part.name,))).symbols:
            bounds.append(replace(env.of(part.name), name=name))
    if not values:
        return kernel, ShapeEnv(), values
    bounds_of_symbols = ShapeEnv(tuple(bounds))
    if all(str(value) == name for name, value in values.items()):
        return kernel, bounds_of_symbols, values
    return with_symbols(kernel, replacements), bounds_of_symbols, values


def _opaque_parts(dim: Dim, env: ShapeEnv) -> list[sympy.Expr]:
    """Return the parts that a dim is a polynomial of, in order.

    A part without a known lower bound is replaced by its symbols.
    """
    opaque = {
        atom
        for part in parts_of(dim)
        for atom in (map(symbol, symbols_of(part)) if env.bounds(part)[0] <= -LARGEST else (part,))
    }
    return sorted(opaque, key=text_of_dim)


def with_symbols(node: Node, values: Mapping[Any, Any]) -> Node:
    """Replace symbols in all dims of a node at once; a node without them is the same object."""
    replaced: Node = _SymbolReplacer(values)(node)
    return replaced


class _SymbolReplacer:
    """A replacement of symbols in values of any nesting, cached by dim."""

    def __init__(self, values: Mapping[Any, Any]) -> None:
        self.values = dict(values)
        self.dims: dict[Any, Any] = {}

    def __call__(self, node: Any) -> Any:
        kind: Any = type(node)
        if kind in PLAIN:
            return node
        if kind is tuple:
            elements = tuple([self(n) for n in node])
            return node if all(map(is_, elements, node)) else elements
        if kind is Affine:
            return self._affine(node)
        if is_symbolic(node):
            return self._dim(node)
        parts = _field_names(kind)
        if not parts:
            return node
        before = [getattr(node, name) for name in parts]
        after = [self(part) for part in before]
        if all(map(is_, after, before)):
            return node
        return replace(node, **dict(zip(parts, after)))

    def _dim(self, dim: Any) -> Any:
        new_dim = self.dims.get(dim)
        if new_dim is None:
            new_dim = self.dims[dim] = simplify(self._rebuilt(dim))
        return new_dim

    def _rebuilt(self, dim: Any) -> Any:
        """Rebuild an expression as sympy would, except quotients.

        sympy looks for their common factors, which takes milliseconds.
        """
        if dim in self.values:
            return self.values[dim]
        if not dim.args:
            return dim
        args = [self._rebuilt(a) for a in dim.args]
        if all(map(is_, args, dim.args)):
            return dim
        return floor_of(*args) if isinstance(dim, sympy.floor) else dim.func(*args)

    def _affine(self, index: Affine) -> Affine:
        terms, const = self(index.terms), self(index.const)
        if terms is index.terms and const is index.const:
            return index
        return affine(dict(terms), const)


@lru_cache(maxsize=256)
def _field_names(kind: type) -> tuple[str, ...]:
    """Return the fields of a type of node; none if it is no dataclass."""
    return tuple(f.name for f in fields(kind) if f.init) if is_dataclass(kind) else ()


def renamed_tiling(tiling: Tiling, names: Mapping[str, str]) -> Tiling:
    """Return a tiling with its axes renamed; those without a new name keep theirs."""

    def renamed(sizes: AxisSizes) -> AxisSizes:
        return tuple((names.get(a, a), n) for a, n in sizes)

    return replace(
        tiling,
        tile=renamed(tiling.tile),
        register=renamed(tiling.register),
        shared=renamed(tiling.shared),
        parts=renamed(tiling.parts),
        matrix=tuple(names.get(a, a) for a in tiling.matrix),
    )


def _with_canonical_axes(c: Compute, names: dict[str, str]) -> Compute:
    for a in c.axes:
        names.setdefault(a.name, f"i{len(names)}")
    for a in c.reduce:
        names.setdefault(a.name, f"r{len(names)}")
    values = {a.name: var(names[a.name]) for a in (*c.axes, *c.reduce)}
    return replace(
        c,
        axes=tuple(Axis(names[a.name], a.extent) for a in c.axes),
        reduce=tuple(Axis(names[a.name], a.extent) for a in c.reduce),
        store=tuple(i.substitute(values) for i in c.store),
        expr=substitute(c.expr, values),
        origin=frozenset(),
    )


@lru_cache(maxsize=1 << 14)
def _dim(dim: Dim) -> str:
    """Return a dim as text, cached: symbols are printed slowly."""
    return str(dim)


@by_identity
def kernel_text(kernel: Kernel) -> str:
    """Return a text of a kernel that does not depend on names."""
    names = {t: f"x{n}" for n, t in enumerate(kernel.inputs)}
    names |= {t: f"y{n}" for n, t in enumerate(kernel.outputs)}
    for c in kernel.computes:
        names.setdefault(c.out, f"t{len(names)}")
    loops = [_linked(c, names) for c in kernel.computes]
    used = (
        f"{names[t.name]} {tuple(map(_dim, t.shape))} {t.dtype}"
        for t in kernel.tensors
        if t.name in names
    )
    updates = [(names[o], names[i]) for o, i in kernel.updates]
    fixed = sorted(names[t] for t in kernel.constants)
    parts = (str(len(kernel.inputs)), *loops, *sorted(used), str(updates), str(fixed))
    return "\n".join(parts)


def _linked(c: Compute, names: Mapping[str, str]) -> str:
    text, reads = loop_text(c)
    return f"{names[c.out]} = {text} of {', '.join(names.get(t, t) for t in reads)}"


@by_identity
def loop_text(c: Compute) -> tuple[str, tuple[str, ...]]:
    """Return a loop nest without its names, and the tensors it reads in order of its numbers."""
    axes = {a.name: f"i{n}" for n, a in enumerate(c.axes)}
    axes |= {a.name: f"r{n}" for n, a in enumerate(c.reduce)}
    tensors: dict[str, int] = {}
    body = _scalar(c.expr, axes, tensors)
    over = " ".join(f"{axes[a.name]}<{_dim(a.extent)}" for a in (*c.axes, *c.reduce))
    target = ", ".join(_index(i, axes) for i in c.target)
    return f"[{target}] {c.combiner} over {over}: {body}", tuple(tensors)


def _scalar(expr: Expr, axes: Mapping[str, str], tensors: dict[str, int]) -> str:
    match expr:
        case Const(value, dtype):
            return f"{value!r} {dtype}"
        case IndexValue(index):
            return _index(index, axes)
        case Read(tensor, index, fill):
            number = tensors.setdefault(tensor, len(tensors))
            at = ", ".join(
                _index(i, axes) if isinstance(i, Affine) else _scalar(i, axes, tensors)
                for i in index
            )
            return f"#{number}[{at}] else {fill!r}"
        case Apply(op, args):
            return f"{op}({', '.join(_scalar(a, axes, tensors) for a in args)})"


def _index(index: Affine, axes: Mapping[str, str]) -> str:
    terms = sorted([f"{_dim(c)}*{axes.get(n, n)}" for n, c in index.terms])
    return " + ".join((*terms, _dim(index.const)))
