"""Memory order of values: channels dense where weights sum over them, and propagation of orders."""

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

FEW_CHANNELS = 8  # channels of an image that is read in place; chosen, unmeasured


def is_identity(order: Order) -> bool:
    """Return True if the dims lie in their written order."""
    return order == tuple(range(len(order)))


def has_windows(function: Function) -> bool:
    """Return True if a kernel reduces over a sliding window."""
    calls = (b.expr for b in function.body if isinstance(b.expr, KernelCall))
    return any(has_window(call.kernel) for call in calls)


def channels_last(entries: tuple[Affine | object, ...], weight: Read) -> Order | None:
    """Return the order with the dims that index the weights last, or None if there are none."""
    last = _channel_dims(entries, weight)
    if not last:
        return None
    return (*(d for d in range(len(entries)) if d not in last), *last)


def _channel_dims(entries: tuple[Affine | object, ...], weight: Read) -> list[int]:
    weight_axes = variables(weight)
    return [
        d
        for d, i in enumerate(entries)
        if isinstance(i, Affine) and i.terms and i.variables <= weight_axes
    ]


def choose_orders(function: Function, weight_params: AbstractSet[str]) -> dict[str, Order]:
    """Return the memory order of each value that a kernel binds or reads, where one is preferred.

    `weight_params` are values from outside that may be weights.
    """
    calls = list(_free_calls(function))
    orders: dict[str, Order] = {}
    params = {p.name for p in function.params}
    for name, call in calls:
        summed = weighted_sum(call.kernel, weights_of(call, weight_params))
        if summed is None:
            continue
        c, data, weight = summed
        _set_order(
            orders, name, _order_through(call.kernel, c.out, channels_last(c.target, weight))
        )
        if _is_worth_moving(call, data, weight, params):
            _set_order(orders, _arg_name(call, data.tensor), channels_last(data.index, weight))
    weights = {name: weights_of(call, weight_params) for name, call in calls}
    passing = [(n, call) for n, call in calls if not multiplies_values(call.kernel, weights[n])]
    while _propagate_orders(passing, orders, params):
        pass
    return orders


def _free_calls(function: Function) -> Iterator[tuple[str, KernelCall]]:
    """Yield the kernels whose results may have any order.

    A match_cast is treated like a copy: its result has the order of its operand.
    """
    for b in function.body:
        if isinstance(b.expr, KernelCall) and is_free(b.expr.kernel):
            yield b.name, b.expr
        elif is_tensor_cast(b):
            copied = Compute("y", over := axes("i", b.var.tensor.dims), at("x", over))
            specs = tuple(TensorSpec(n, b.var.tensor.dims, b.var.tensor.element) for n in "xy")
            yield b.name, KernelCall(Kernel("cast", specs, (copied,), ("x",), ("y",)), b.reads)


def is_tensor_cast(b: Binding) -> bool:
    """Return True if a match_cast states the extents of a tensor, dim by dim."""
    if not isinstance(b.expr, MatchCast):
        return False
    wanted, source = b.var.type, b.expr.arg.type
    if not isinstance(wanted, Tensor) or not isinstance(source, Tensor):
        return False
    return wanted.is_known and source.is_known and wanted.rank == source.rank


def weight_gradient_order(c: Compute, data: Read, other: Read) -> Order:
    """Return the order of a sum over windows of the data, as in a weight gradient.

    Positions in the window come first, then channels of the data, then, dense, those of the other
    operand, as a product of two images is computed. `dw[o, c, kh, kw] = sum over n, h, w: g[n, h,
    w, o] * x[n, h + kh, w + kw, c]`: kh, kw, c, o.
    """
    theirs, inside = variables(other), _in_windows(data)

    def key(d: int) -> tuple[int, int]:
        index = c.target[d]
        return (2 if index.variables & theirs else 0 if index.variables & inside else 1, d)

    return tuple(sorted(range(len(c.target)), key=key))


def _in_windows(data: Read) -> frozenset[str]:
    """Return the axes in indices of several terms: position of the window and within it."""
    axis_sets = (i.variables for i in data.index if isinstance(i, Affine) and len(i.terms) > 1)
    return frozenset[str]().union(*axis_sets)


def is_free(kernel: Kernel) -> bool:
    """Return True if a kernel's result may have any order.

    Several results share one order, and a result written in place has that of the memory.
    """
    return len(kernel.outputs) == 1 and not kernel.updates


def _is_worth_moving(call: KernelCall, data: Read, weight: Read, params: set[str]) -> bool:
    """Return True if permuting the data of a weighted sum pays.

    A flattened image may lie in any order. An image of few channels from outside is read in place,
    which costs less than a copy.
    """
    dims = _channel_dims(data.index, weight)
    if len(dims) != 1:
        return False
    channels = call.kernel.shape(data.tensor)[dims[0]]
    few = isinstance(channels, int) and channels < FEW_CHANNELS
    return not (few and _arg_name(call, data.tensor) in params)


def _set_order(orders: dict[str, Order], name: str | None, order: Order | None) -> bool:
    if name is None or order is None or name in orders:
        return False
    orders[name] = order
    return True


def _arg_name(call: KernelCall, tensor: str) -> str | None:
    """Return the name of the value passed as an input, or None for an inner tensor."""
    if tensor not in call.kernel.inputs:
        return None
    return call.args[call.kernel.inputs.index(tensor)].name


def _propagate_orders(
    calls: list[tuple[str, KernelCall]], orders: dict[str, Order], params: set[str]
) -> bool:
    """Propagate orders by one kernel, forwards and then backwards; return True if any changed."""
    changed = False
    for name, call in calls:
        if name not in orders:
            changed |= _set_order(orders, name, _order_of_result(call, orders))
    for name, call in reversed(calls):
        if name in orders and not is_identity(orders[name]):
            for tensor, arg in zip(call.kernel.inputs, call.args, strict=True):
                if arg.name in orders or arg.name in params or tensor in call.kernel.constants:
                    continue
                order = matching_order(call.kernel, call.kernel.output, orders[name], tensor)
                changed |= _set_order(orders, arg.name, order)
    return changed


def _order_of_result(call: KernelCall, orders: Mapping[str, Order]) -> Order | None:
    for tensor, arg in zip(call.kernel.inputs, call.args, strict=True):
        order = orders.get(arg.name)
        if order is not None and not is_identity(order):
            result_order = matching_order(call.kernel, tensor, order, call.kernel.output)
            if result_order is not None:
                return result_order
    return None


def _order_through(kernel: Kernel, tensor: str, order: Order | None) -> Order | None:
    if order is None or tensor == kernel.output:
        return order
    return matching_order(kernel, tensor, order, kernel.output)


def matching_order(kernel: Kernel, source: str, order: Order, target: str) -> Order | None:
    """Return the order of one tensor of a kernel that matches the order of another.

    Returns None if their dims do not determine it.
    """
    rank = len(kernel.shape(target))
    if rank < 3:
        return None
    classes = dim_classes(kernel)
    place: dict[int, int] = {}
    for position, d in enumerate(order):
        dim_class = classes.get((source, d))
        if dim_class is None:
            continue
        if dim_class in place:
            return None
        place[dim_class] = position
    keys: list[int] = []
    for d in range(rank):
        dim_class = classes.get((target, d))
        if dim_class is not None and dim_class in place:
            keys.append(place[dim_class])
        elif rank == len(order):
            keys.append(order.index(d))
        else:
            return None
    return tuple(sorted(range(rank), key=lambda d: keys[d]))


def dim_classes(kernel: Kernel) -> dict[tuple[str, int], int]:
    """Return for each indexed dim of each tensor the number of its class: dims that share axes."""
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
