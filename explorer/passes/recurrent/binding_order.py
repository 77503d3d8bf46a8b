"""Orders in which the bindings of a function may run: as they stand, layer by layer, step by step,
or along the diagonal of both.

    layer      of a binding: the constant whose product comes last on a way to it, by where that
               constant is used first
    time step  of a binding: how many products of one constant are on one path to it, at most
    diagonal   of a binding: how many products of any constant are on one path to it, at most

None falls along the dataflow, so sorting by one of them keeps every value before its readers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from explorer.ir.program import Binding, Constant
from explorer.passes.recurrent.dataflow import Needs, levels, levels_of_each, needs_of
from explorer.passes.recurrent.product_groups import WEIGHTS_AT_ONCE, kind_of

Weights: TypeAlias = Mapping[int, str]  # by place of a product, the constant that it multiplies by
AS_WRITTEN = "as written"


def layers(needs: Needs, weights: Weights) -> list[int]:
    """The layer of each binding, from 1; 0 where no product is on a way to it."""
    first: dict[str, int] = {}
    found: list[int] = []
    for n, needed in enumerate(needs):
        mine = max([found[at] for at in needed], default=0)
        if n in weights:
            mine = max(mine, first.setdefault(weights[n], len(first) + 1))
        found.append(mine)
    return found


def time_steps(needs: Needs, weights: Weights) -> list[int]:
    """The time step of each binding, from 1; 0 where no product is on a way to it."""
    every = list(dict.fromkeys(weights.values()))
    found = [0] * len(needs)
    for begin in range(0, len(every), WEIGHTS_AT_ONCE):
        column = {name: n for n, name in enumerate(every[begin : begin + WEIGHTS_AT_ONCE])}
        columns = {n: column[name] for n, name in weights.items() if name in column}
        most = levels_of_each(needs, columns, len(column)).max(axis=1).tolist()
        found = list(map(max, found, most))
    return found


def diagonals(needs: Needs, weights: Weights) -> list[int]:
    """The diagonal of each binding, from 1; 0 where no product is on a way to it."""
    return levels(needs, weights)


ORDERS: Mapping[str, Callable[[Needs, Weights], list[int]]] = MappingProxyType(
    {"by layer": layers, "by time step": time_steps, "diagonal": diagonals}
)


def ordered(
    body: Sequence[Binding], constants: Mapping[str, Constant], order: str
) -> tuple[Binding, ...]:
    """The bindings in a named order; those of one rank stay as they stand."""
    if order == AS_WRITTEN:
        return tuple(body)
    kinds = ((n, kind_of(b, constants)) for n, b in enumerate(body))
    weights = {n: kind.weight.name for n, kind in kinds if kind is not None}
    ranks = ORDERS[order](needs_of(body), weights)
    return tuple(body[n] for n in sorted(range(len(body)), key=ranks.__getitem__))
