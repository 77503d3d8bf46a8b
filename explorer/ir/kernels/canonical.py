"""Equal kernels under equal names, so that they are compiled once whatever the model calls its
tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from operator import is_
from typing import Any, TypeVar

from explorer.ir.affine import Affine, affine, var
from explorer.ir.decisions.tiling import Block, Tiling
from explorer.ir.kernel import Axis, Compute, Kernel, rename_tensors, substitute
from explorer.ir.kernels.rebase import rebased
from explorer.ir.shapes.algebra import is_symbol, is_symbolic, sympy
from explorer.ir.shapes.dims import (
    LARGEST,
    Dim,
    ShapeEnv,
    SymbolBound,
    floor_of,
    parts_of,
    simplify,
    symbol,
    symbols_of,
    text_of_dim,
)
from explorer.ir.symbols import dims_in_order

Node = TypeVar("Node")
PLAIN = frozenset((str, int, float, bool, type(None), frozenset))  # values without dims inside


def text_of(kernel: Kernel) -> str:
    """All of a kernel as text, the same in every process: a set is printed in any order."""
    return f"{sorted(kernel.constants)} {replace(kernel, constants=frozenset())}"


def canonical(kernel: Kernel) -> tuple[Kernel, dict[str, str]]:
    """The kernel with inputs `x0, x1, ..` (constants `w0, ..`), output `y` (of
    several `y0, y1, ..`), others `t0, ..`, axes
    `i0, ..` and `r0, ..`, at the front of its tensors; and the new name of each axis.
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
    computes = tuple(_axes(c, axes) for c in renamed.computes)
    return replace(renamed, name="kernel", tensors=tensors, computes=computes), axes


def canonical_symbols(kernel: Kernel, env: ShapeEnv) -> tuple[Kernel, ShapeEnv, dict[str, Dim]]:
    """The kernel with its symbols named `s0, ..` in the order in which they stand in it, what is
    known of these alone, and what each stands for: a symbol, or a quotient of symbols and the like,
    which the kernel need not know to be one. So kernels over all stages of an image are one kernel.

    x[n, (h - 1) // 2 + 1]  ->  x[s0, s1]; s1 = (h - 1) // 2 + 1
    """
    parts = dict.fromkeys(part for dim in dims_in_order(kernel) for part in _opaque_parts(dim, env))
    values: dict[str, Dim] = {}
    words: dict[Any, Any] = {}
    bounds: list[SymbolBound] = []
    for part in parts:
        low, high = env.bounds(part)
        gone = min(0, low)  # symbols are never negative
        name = f"s{len(values)}"
        values[name] = simplify(part - gone)
        words[part] = symbol(name) + gone
        if not is_symbol(part):
            most = None if high is None else high - gone
            bounds.append(SymbolBound(name, low - gone, most, env.hint(part) - gone))
        elif env.only(frozenset((part.name,))).symbols:
            bounds.append(replace(env.of(part.name), name=name))
    if not values:
        return kernel, ShapeEnv(), values
    found = ShapeEnv(tuple(bounds))
    if all(str(value) == name for name, value in values.items()):
        return kernel, found, values
    return with_symbols(kernel, words), found, values


def _opaque_parts(dim: Dim, env: ShapeEnv) -> list[sympy.Expr]:
    """What a dim is a polynomial of, in order; in place of what is not known to be 0 or more but
    for a number, its symbols.
    """
    found = {
        one
        for part in parts_of(dim)
        for one in (map(symbol, symbols_of(part)) if env.bounds(part)[0] <= -LARGEST else (part,))
    }
    return sorted(found, key=text_of_dim)


def with_symbols(node: Node, values: Mapping[Any, Any]) -> Node:
    """The same with other symbols in its dims, all exchanged at once; what has none of them is the
    same object.
    """
    made: Node = _Exchange(values)(node)
    return made


class _Exchange:
    """Other symbols in values of any nesting; each dim is looked at once."""

    def __init__(self, values: Mapping[Any, Any]) -> None:
        self.values = dict(values)
        self.dims: dict[Any, Any] = {}

    def __call__(self, node: Any) -> Any:
        kind: Any = type(node)
        if kind in PLAIN:
            return node
        if kind is tuple:
            made = tuple([self(n) for n in node])
            return node if all(map(is_, made, node)) else made
        if kind is Affine:
            return self._affine(node)
        if is_symbolic(node):
            return self._dim(node)
        parts = _parts(kind)
        if not parts:
            return node
        before = [getattr(node, name) for name in parts]
        after = [self(part) for part in before]
        if all(map(is_, after, before)):
            return node
        return replace(node, **dict(zip(parts, after)))

    def _dim(self, dim: Any) -> Any:
        found = self.dims.get(dim)
        if found is None:
            found = self.dims[dim] = simplify(self._rebuilt(dim))
        return found

    def _rebuilt(self, dim: Any) -> Any:
        """What sympy makes of it again, but for quotients: it looks for their common factors, which
        takes milliseconds.
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
def _parts(kind: type) -> tuple[str, ...]:
    """The fields of a kind of node, none where it is no dataclass."""
    return tuple(f.name for f in fields(kind) if f.init) if is_dataclass(kind) else ()


def renamed_tiling(tiling: Tiling, names: Mapping[str, str]) -> Tiling:
    """A tiling with its axes renamed."""
    return replace(tiling, tile=tuple((names.get(a, a), n) for a, n in tiling.tile))


def renamed_block(block: Block, names: Mapping[str, str]) -> Block:
    """A thread block with its axes renamed; KeyError where one is not among the names."""
    return replace(
        block,
        tile=tuple((names[a], n) for a, n in block.tile),
        register=tuple((names[a], n) for a, n in block.register),
        shared=tuple((names[a], n) for a, n in block.shared),
        parts=tuple((names[a], n) for a, n in block.parts),
        matrix=tuple(names[a] for a in block.matrix),
    )


def _axes(c: Compute, names: dict[str, str]) -> Compute:
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
