"""Memory order of values: its choice, its propagation, and kernels whose tensors have it.

Channels are dense where weights sum over them. Weights of a contraction are constants, or arguments
of the program. The loops of a permuted kernel follow the memory order of their results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeAlias, TypeVar

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, MatchCast
from explorer.ir.dims import Dim
from explorer.ir.kernel import (
    Axis,
    Compute,
    Expr,
    Kernel,
    Read,
    TensorSpec,
    at,
    axes,
    reads,
    rewrite,
)
from explorer.ir.kernels.contraction import contraction, product_of
from explorer.ir.kernels.running import has_window
from explorer.ir.program import Binding, Function
from explorer.ir.types import Tensor
from explorer.transforms.copies.split_axes import contractions

Order: TypeAlias = tuple[int, ...]  # dims from the slowest to the fastest in memory

Item = TypeVar("Item")
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


def weights_of(call: KernelCall, weight_params: AbstractSet[str]) -> frozenset[str]:
    """Return the inputs of a kernel that are weights.

    These are its constants, and those values of `weight_params` that multiply a sliding window, or
    that multiply a value computed inside pixel by pixel. `weight_params` are values from outside.
    """
    kernel = call.kernel
    mine = {t for t, a in zip(kernel.inputs, call.args, strict=True) if a.name in weight_params}
    inside = {*kernel.inputs} - mine - kernel.constants
    weights = set(kernel.constants)
    for c in kernel.computes if mine else ():
        pair = _product_operands(c)
        for data, weight in (pair, pair[::-1]) if pair else ():
            if weight.tensor not in mine or _is_sliding(c, weight, data):
                continue
            if data.tensor in kernel.constants:
                continue
            moving = [i for i in weight.index if isinstance(i, Affine) and i.terms]
            pixels = len(data.index) == len(weight.index) > len(moving) == 2
            if _is_sliding(c, data, weight) or (pixels and data.tensor in inside):
                weights.add(weight.tensor)
    return frozenset(weights)


def weighted_sum(kernel: Kernel, weights: AbstractSet[str]) -> tuple[Compute, Read, Read] | None:
    """Return the first contraction with weights: the compute, its data, its weights."""
    for c in kernel.computes:
        pair = _product_operands(c)
        for data, weight in (pair, pair[::-1]) if pair else ():
            if weight.tensor in weights and data.tensor not in weights:
                return c, data, weight
    return None


def window_of_values(kernel: Kernel) -> tuple[Compute, Read, Read] | None:
    """Return a contraction of a sliding window with a value that does not slide, or None.

    The result is the compute, the window, and the other operand: the gradient of weights has this
    form.
    """
    for c in kernel.computes:
        pair = _product_operands(c)
        for data, other in (pair, pair[::-1]) if pair else ():
            if (
                _is_sliding(c, data, other)
                and not _is_sliding(c, other, data)
                and other.fill is None
            ):
                return c, data, other
    return None


def multiplies_values(kernel: Kernel, weights: AbstractSet[str]) -> bool:
    """Return True if a kernel multiplies two computed values.

    Its result has rows of one and columns of the other, so its order is that of neither.
    """
    if weighted_sum(kernel, weights) is not None:
        return False
    return window_of_values(kernel) is not None or any(contraction(c) for c in kernel.computes)


def variables(read: Read) -> frozenset[str]:
    """Return the axes that the indices of a read depend on, affinely."""
    axis_sets = (i.variables for i in read.index if isinstance(i, Affine))
    return frozenset[str]().union(*axis_sets)


def _is_sliding(c: Compute, data: Read, other: Read) -> bool:
    """Return True if a window of the data slides along axes that do not index the other operand.

    A head that both operands have beside their channels is no window.
    """
    summed, other_axes = {a.name for a in c.reduce}, variables(other)
    return any(
        i.variables & summed and i.variables - summed - other_axes
        for i in data.index
        if isinstance(i, Affine)
    )


def _product_operands(c: Compute) -> tuple[Read, Read] | None:
    return product_of(c.expr) if c.combiner == "sum" and c.reduce else None


def reordered(items: Sequence[Item], order: Order) -> tuple[Item, ...]:
    """Return the items in memory order."""
    return tuple(items[d] for d in order)


def moves_memory(shape: Sequence[Dim], order: Order) -> bool:
    """Return True if elements move in memory; dims of extent 1 may go anywhere."""
    long = [d for d in order if shape[d] != 1]
    return long != sorted(long)


def permute(
    kernel: Kernel, orders: Mapping[str, Order], weights: AbstractSet[str], packing: bool = True
) -> tuple[Kernel, dict[str, Order]]:
    """Permute a kernel's tensors; return the kernel and the orders that its weights must have.

    `orders` are those of the kernel's own tensor names. Loops run in the order of their results,
    inner tensors lie in the order of their readers, and weights in the order of the loops, except
    constants that a contraction packs if `packing`.
    """
    chosen = dict(orders)
    computes = list(kernel.computes)
    for n in reversed(range(len(computes))):
        c = computes[n]
        rank = len(kernel.shape(c.out))
        computes[n] = c = _with_axes(c, chosen.get(c.out, tuple(range(rank))), chosen, weights)
        packs = packing and contractions(replace(kernel, computes=tuple(computes)))[n] is not None
        for read in reads(c.expr):
            inner = read.tensor not in kernel.inputs and read.tensor not in chosen
            if inner or (read.tensor in weights and read.tensor not in chosen):
                order = _order_of_read(read, c, first_reduced=not inner)
                ahead = packs and read.tensor in kernel.constants
                if inner or (not ahead and moves_memory(kernel.shape(read.tensor), order)):
                    chosen[read.tensor] = order
    ordered = replace(kernel, computes=tuple(computes))
    changed = {t: o for t, o in chosen.items() if not is_identity(o)}
    moved = {t: o for t, o in changed.items() if t in weights}
    return _with_dims(ordered, changed), moved


def _with_axes(
    c: Compute, order: Order, orders: Mapping[str, Order], weights: AbstractSet[str]
) -> Compute:
    """Order a compute's loops by the memory of its target, its reductions by that of its data."""
    axes = _sort_axes(c.axes, reordered(c.target, order))
    store = c.store if axes == c.axes else c.target
    data = next((r for r in reads(c.expr) if r.tensor not in weights), None)
    if data is None or not c.reduce:
        return replace(c, axes=axes, store=store)
    index = data.index
    if data.tensor in orders:
        index = reordered(index, orders[data.tensor])
    return replace(c, axes=axes, reduce=_sort_axes(c.reduce, index), store=store)


def _sort_axes(axes: tuple[Axis, ...], index: Sequence[Affine | Expr]) -> tuple[Axis, ...]:
    """Sort axes by their position in an index, longer steps first; other axes stay in front."""
    steps: dict[str, tuple[int, float]] = {}
    for d, entry in enumerate(index):
        for name, factor in entry.terms if isinstance(entry, Affine) else ():
            steps.setdefault(
                name, (d, -float(factor) if isinstance(factor, int) else float("-inf"))
            )
    indexed = [a for a in axes if a.name in steps]
    others = [a for a in axes if a.name not in steps]
    return (*others, *sorted(indexed, key=lambda a: steps[a.name]))


def _order_of_read(read: Read, c: Compute, *, first_reduced: bool) -> Order:
    """Return the dims of a tensor in the order in which a compute's loops iterate over them."""
    names = [a.name for a in ((*c.reduce, *c.axes) if first_reduced else (*c.axes, *c.reduce))]

    def place(d: int) -> int:
        entry = read.index[d]
        positions = [names.index(v) for v in entry.variables] if isinstance(entry, Affine) else []
        return max(positions, default=-1)

    return tuple(sorted(range(len(read.index)), key=place))


def _with_dims(kernel: Kernel, orders: Mapping[str, Order]) -> Kernel:
    """Permute the dims of tensors and every index of them."""
    if not orders:
        return kernel

    def leaf(read: Read) -> Expr:
        order = orders.get(read.tensor)
        return read if order is None else replace(read, index=reordered(read.index, order))

    def permute_compute(c: Compute) -> Compute:
        order = orders.get(c.out)
        store = c.store if order is None else reordered(c.target, order)
        return replace(c, expr=rewrite(c.expr, leaf), store=store)

    def permute_spec(t: TensorSpec) -> TensorSpec:
        order = orders.get(t.name)
        return t if order is None else replace(t, shape=reordered(t.shape, order))

    return replace(
        kernel,
        computes=tuple(map(permute_compute, kernel.computes)),
        tensors=tuple(map(permute_spec, kernel.tensors)),
    )
