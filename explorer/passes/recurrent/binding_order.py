"""Topological orders of a function's bindings: as written, by layer, by step, or diagonal.

    layer      of a binding: the constant of the last product on a path to it, numbered by where
               that constant is used first
    time step  of a binding: the largest number of products of one constant on a path to it
    diagonal   of a binding: the largest number of products of any constant on a path to it

Each rank is monotone along the dataflow, so sorting by it keeps every value before its readers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from explorer.ir.program import Binding, Constant
from explorer.passes.recurrent.dataflow import Needs, levels, levels_of_each, needs_of
from explorer.passes.recurrent.product_groups import WEIGHTS_AT_ONCE, kind_of

Weights: TypeAlias = Mapping[int, str]  # by position of a product, its constant
AS_WRITTEN = "as written"


def layers(needs: Needs, weights: Weights) -> list[int]:
    """Return the layer of each binding, from 1; 0 if no product is on a path to it."""
    first: dict[str, int] = {}
    ranks: list[int] = []
    for n, needed in enumerate(needs):
        mine = max([ranks[at] for at in needed], default=0)
        if n in weights:
            mine = max(mine, first.setdefault(weights[n], len(first) + 1))
        ranks.append(mine)
    return ranks


def time_steps(needs: Needs, weights: Weights) -> list[int]:
    """Return the time step of each binding, from 1; 0 if no product is on a path to it."""
    every = list(dict.fromkeys(weights.values()))
    ranks = [0] * len(needs)
    for begin in range(0, len(every), WEIGHTS_AT_ONCE):
        column = {name: n for n, name in enumerate(every[begin : begin + WEIGHTS_AT_ONCE])}
        columns = {n: column[name] for n, name in weights.items() if name in column}
        most = levels_of_each(needs, columns, len(column)).max(axis=1).tolist()
        ranks = list(map(max, ranks, most))
    return ranks


def diagonals(needs: Needs, weights: Weights) -> list[int]:
    """Return the diagonal of each binding, from 1; 0 if no product is on a path to it."""
    return levels(needs, weights)


ORDERS: Mapping[str, Callable[[Needs, Weights], list[int]]] = MappingProxyType(
    {"by layer": layers, "by time step": time_steps, "diagonal": diagonals}
)


def order_bindings(
    body: Sequence[Binding], constants: Mapping[str, Constant], order: str
) -> tuple[Binding, ...]:
    """Return the bindings in a named order; bindings of equal rank keep their relative order."""
    if order == AS_WRITTEN:
        return tuple(body)
    kinds = ((n, kind_of(b, constants)) for n, b in enumerate(body))
    weights = {n: kind.weight.name for n, kind in kinds if kind is not None}
    ranks = ORDERS[order](needs_of(body), weights)
    return tuple(body[n] for n in sorted(range(len(body)), key=ranks.__getitem__))
