"""Which dim of a value should lie dense in memory: channels where weights sum over them, and what
follows from that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, MatchCast
from explorer.ir.kernel import Compute, Kernel, Read, TensorSpec, at, axes, reads
from explorer.ir.patterns.sliding import has_window
from explorer.ir.program import Binding, Function
from explorer.ir.types import Tensor
from explorer.passes.layout.weights import multiplies_values, variables, weighted_sum, weights_of

Order: TypeAlias = tuple[int, ...]  # dims from the slowest to the fastest in memory

FEW_CHANNELS = 8  # of an image that is not copied; chosen, no measurement kept


def is_identity(order: Order) -> bool:
    """Whether the dims lie as they are written."""
    return order == tuple(range(len(order)))


def has_windows(function: Function) -> bool:
    """Whether some kernel reduces over a sliding window."""
    calls = (b.expr for b in function.body if isinstance(b.expr, KernelCall))
    return any(has_window(call.kernel) for call in calls)


def channels_last(entries: tuple[Affine | object, ...], weight: Read) -> Order | None:
    """The dims with those that the weights tell apart at the end; None where there are none."""
    last = _channels(entries, weight)
    if not last:
        return None
    return (*(d for d in range(len(entries)) if d not in last), *last)


def _channels(entries: tuple[Affine | object, ...], weight: Read) -> list[int]:
    known = variables(weight)
    return [
        d
        for d, i in enumerate(entries)
        if isinstance(i, Affine) and i.terms and i.variables <= known
    ]


def choose_orders(function: Function, given: AbstractSet[str]) -> dict[str, Order]:
    """The memory order of each value that a kernel of the function binds or reads, where one is
    better than another. `given` are values from outside that may be weights.
    """
    calls = list(_calls(function))
    orders: dict[str, Order] = {}
    params = {p.name for p in function.params}
    for name, call in calls:
        found = weighted_sum(call.kernel, weights_of(call, given))
        if found is None:
            continue
        c, data, weight = found
        _note(orders, name, _through(call.kernel, c.out, channels_last(c.target, weight)))
        if _worth_moving(call, data, weight, params):
            _note(orders, _arg(call, data.tensor), channels_last(data.index, weight))
    weights = {name: weights_of(call, given) for name, call in calls}
    passing = [(n, call) for n, call in calls if not multiplies_values(call.kernel, weights[n])]
    while _spread(passing, orders, params):
        pass
    return orders


def _calls(function: Function) -> Iterator[tuple[str, KernelCall]]:
    """The kernels whose results may lie in any order; what a match_cast gives lies as what it is
    given, as if that were copied.
    """
    for b in function.body:
        if isinstance(b.expr, KernelCall) and is_free(b.expr.kernel):
            yield b.name, b.expr
        elif is_tensor_cast(b):
            copied = Compute("y", over := axes("i", b.var.tensor.dims), at("x", over))
            specs = tuple(TensorSpec(n, b.var.tensor.dims, b.var.tensor.element) for n in "xy")
            yield b.name, KernelCall(Kernel("cast", specs, (copied,), ("x",), ("y",)), b.reads)


def is_tensor_cast(b: Binding) -> bool:
    """Whether a match_cast says of a tensor what its extents are, dim by dim."""
    if not isinstance(b.expr, MatchCast):
        return False
    wanted, found = b.var.type, b.expr.arg.type
    if not isinstance(wanted, Tensor) or not isinstance(found, Tensor):
        return False
    return wanted.is_known and found.is_known and wanted.rank == found.rank


def learnt_order(c: Compute, data: Read, other: Read) -> Order:
    """The order of what is summed over windows of the data: its place in the window, the channel of
    the data, and dense that of the other, as a product of two images is computed.

    `dw[o, c, kh, kw] = sum over n, h, w: g[n, h, w, o] * x[n, h + kh, w + kw, c]`: kh, kw, c, o.
    """
    theirs, inside = variables(other), _in_windows(data)

    def key(d: int) -> tuple[int, int]:
        index = c.target[d]
        return (2 if index.variables & theirs else 0 if index.variables & inside else 1, d)

    return tuple(sorted(range(len(c.target)), key=key))


def _in_windows(data: Read) -> frozenset[str]:
    """The axes in indices of several: the window's and the window's place."""
    found = (i.variables for i in data.index if isinstance(i, Affine) and len(i.terms) > 1)
    return frozenset[str]().union(*found)


def is_free(kernel: Kernel) -> bool:
    """Whether the order of a kernel's result is nobody else's: several results share one, and what
    is written over has the order that it has.
    """
    return len(kernel.outputs) == 1 and not kernel.updates


def _worth_moving(call: KernelCall, data: Read, weight: Read, params: set[str]) -> bool:
    """A flattened image may lie in any order; an image of few channels that comes from outside is
    read where it is, which costs less than a copy.
    """
    dims = _channels(data.index, weight)
    if len(dims) != 1:
        return False
    channels = call.kernel.shape(data.tensor)[dims[0]]
    few = isinstance(channels, int) and channels < FEW_CHANNELS
    return not (few and _arg(call, data.tensor) in params)


def _note(orders: dict[str, Order], name: str | None, order: Order | None) -> bool:
    if name is None or order is None or name in orders:
        return False
    orders[name] = order
    return True


def _arg(call: KernelCall, tensor: str) -> str | None:
    """The value given as an input; None for what is made inside."""
    if tensor not in call.kernel.inputs:
        return None
    return call.args[call.kernel.inputs.index(tensor)].name


def _spread(
    calls: list[tuple[str, KernelCall]], orders: dict[str, Order], params: set[str]
) -> bool:
    """Carry known orders one kernel further, forwards and then backwards."""
    changed = False
    for name, call in calls:
        if name not in orders:
            changed |= _note(orders, name, _order_of_result(call, orders))
    for name, call in reversed(calls):
        if name in orders and not is_identity(orders[name]):
            for tensor, arg in zip(call.kernel.inputs, call.args, strict=True):
                if arg.name in orders or arg.name in params or tensor in call.kernel.constants:
                    continue
                order = follow(call.kernel, call.kernel.output, orders[name], tensor)
                changed |= _note(orders, arg.name, order)
    return changed


def _order_of_result(call: KernelCall, orders: Mapping[str, Order]) -> Order | None:
    for tensor, arg in zip(call.kernel.inputs, call.args, strict=True):
        order = orders.get(arg.name)
        if order is not None and not is_identity(order):
            found = follow(call.kernel, tensor, order, call.kernel.output)
            if found is not None:
                return found
    return None


def _through(kernel: Kernel, tensor: str, order: Order | None) -> Order | None:
    if order is None or tensor == kernel.output:
        return order
    return follow(kernel, tensor, order, kernel.output)


def follow(kernel: Kernel, source: str, order: Order, target: str) -> Order | None:
    """The order of one tensor of a kernel in which its dims run as those of another do; None where
    they do not tell.
    """
    rank = len(kernel.shape(target))
    if rank < 3:
        return None
    classes = dim_classes(kernel)
    place: dict[int, int] = {}
    for position, d in enumerate(order):
        found = classes.get((source, d))
        if found is None:
            continue
        if found in place:
            return None
        place[found] = position
    keys: list[int] = []
    for d in range(rank):
        found = classes.get((target, d))
        if found is not None and found in place:
            keys.append(place[found])
        elif rank == len(order):
            keys.append(order.index(d))
        else:
            return None
    return tuple(sorted(range(rank), key=lambda d: keys[d]))


def dim_classes(kernel: Kernel) -> dict[tuple[str, int], int]:
    """For each dim of each tensor that some axis runs along, the number of its class: dims that run
    together.
    """
    parent: dict[object, object] = {}

    def root(node: object) -> object:
        parent.setdefault(node, node)
        while parent[node] != node:
            node = parent[node]
        return node

    for n, c in enumerate(kernel.computes):
        entries = [(c.out, c.target), *((r.tensor, r.index) for r in reads(c.expr))]
        for tensor, index in entries:
            if tensor in kernel.constants:
                continue
            for d, entry in enumerate(index):
                for name in entry.variables if isinstance(entry, Affine) else ():
                    parent[root((tensor, d))] = root((n, name))
    numbers: dict[object, int] = {}
    return {
        (str(node[0]), int(node[1])): numbers.setdefault(root(node), len(numbers))
        for node in list(parent)
        if isinstance(node, tuple) and isinstance(node[0], str)
    }
