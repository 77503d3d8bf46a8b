"""Symbols replaced by numbers, or by dims in other symbols, wherever a dim stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from explorer.ir.affine import Affine, affine
from explorer.ir.lattice import replace_symbols
from explorer.ir.shapes.algebra import is_symbolic
from explorer.ir.shapes.dims import Dim

Node = TypeVar("Node")


def with_symbols(node: Node, values: Mapping[str, Dim]) -> Node:
    """A function, binding, annotation or kernel that speaks of these dims instead of symbols."""
    return _Replacing(values).of(node)


class _Replacing:
    """Replaces symbols wherever a dim stands; what several places share is made once."""

    def __init__(self, values: Mapping[str, Dim]) -> None:
        self.values = values
        self.made: dict[int, tuple[Any, Any]] = {}

    def of(self, node: Node) -> Node:
        found = self.made.get(id(node))
        if found is None:
            found = self.made[id(node)] = (node, self.new(node))
        made: Node = found[1]
        return made

    def new(self, node: Any) -> Any:
        match node:
            case _ if is_symbolic(node):
                return replace_symbols(node, self.values)
            case Affine(terms, const):
                return affine({n: self.of(c) for n, c in terms}, self.of(const))
            case tuple():
                items = tuple(map(self.of, node))
                return node if all(a is b for a, b in zip(items, node, strict=True)) else items
        if not is_dataclass(node) or isinstance(node, type):
            return node
        before = {f.name: getattr(node, f.name) for f in fields(node) if f.init}
        after = {name: self.of(value) for name, value in before.items()}
        changed = {name: value for name, value in after.items() if value is not before[name]}
        return replace(node, **changed) if changed else node
