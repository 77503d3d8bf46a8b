"""Substitution of symbols by numbers or by other dims, wherever a dim occurs."""

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
    """Replace symbols in a function, binding, annotation or kernel by dims."""
    return _Substitution(values).of(node)


class _Substitution:
    """A substitution of symbols that rewrites each shared node once."""

    def __init__(self, values: Mapping[str, Dim]) -> None:
        """Create a substitution by these values."""
        self.values = values
        self.rewritten_nodes: dict[int, tuple[Any, Any]] = {}

    def of(self, node: Node) -> Node:
        """Return the rewritten node, memoized."""
        cached = self.rewritten_nodes.get(id(node))
        if cached is None:
            cached = self.rewritten_nodes[id(node)] = (node, self.new(node))
        rewritten: Node = cached[1]
        return rewritten

    def new(self, node: Any) -> Any:
        """Rewrite a node."""
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
