"""Channels-last layout of convolutional networks: summed and written channels are dense."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.affine import var
from explorer.ir.calls import KernelCall, MatchCast, Var, View
from explorer.ir.dims import Shape
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.kernels.running import has_window
from explorer.ir.program import Binding, Constant, Function, Program, fresh
from explorer.ir.types import Tensor
from explorer.passes.registry import compiler_pass
from explorer.transforms.channel_order import order_channels
from explorer.transforms.copies.fold_into import (
    read_through,
    split_everywhere,
    split_if_free,
    split_if_free_or_reduction,
    store_through,
)
from explorer.transforms.copies.index_maps import copy_map
from explorer.transforms.memory_order import (
    Order,
    choose_orders,
    has_windows,
    is_free,
    is_identity,
    is_tensor_cast,
    moves_memory,
    multiplies_values,
    permute,
    reordered,
    weight_gradient_order,
    weighted_sum,
    weights_of,
    window_of_values,
)


@compiler_pass(
    "layout", paper="Liu et al. 2019, Optimizing CNN model inference on CPUs, section 3.2"
)
@dataclass(frozen=True, slots=True)
class ChooseLayout:
    """A pass that permutes values to channels-last where there is a convolution.

    After: channels are dense, windows are iterated over in the memory order of their results, and
    channels that are shuffled into pixels lie in the order of the pixels; inputs and outputs of the
    program keep their layout. `y[n, o, h, w] = sum over c: x[n, c, h, w] * w[o, c]` becomes `y[n,
    h, w, o] = sum over c: x[n, h, w, c] * w[o, c]`. No kernel is matched by name: index maps and
    loop orders are permuted, weights are permuted at compile time. `packs`: except weights that
    contractions pack, which a GPU does not do.
    """

    packs: bool = True

    def __call__(self, program: Program) -> Program:
        """Permute the values of a program."""
        constants = dict(program.constants)
        for function in program.functions:
            if has_windows(function):
                permuted = _Layout(program, function, constants, self.packs).rewrite()
                program = program.with_function(permuted)
        return order_channels(replace(program, constants=constants))


class _Layout:
    """The layout rewrite of one function."""

    def __init__(
        self, program: Program, function: Function, constants: dict[str, Constant], packs: bool
    ) -> None:
        """Choose the orders of a function's values."""
        self.program, self.constants, self.packs = program, constants, packs
        self.weight_params = _weight_params(program, function)
        viewed = _fold_views_into_stores(program, function, self.weight_params)
        self.function = _fold_views_into_readers(program, viewed, self.weight_params)
        self.orders = {
            name: order
            for name, order in choose_orders(self.function, self.weight_params).items()
            if not is_identity(order)
        }
        self.body: list[Binding] = []
        self.now: dict[str, Var] = {}  # permuted values by their original name
        self.weights: dict[tuple[str, Order], Var] = {}  # weights that are permuted once a run

    def rewrite(self) -> Function:
        """Return the function with permuted kernels and copies at its border."""
        for param in self.function.params:
            self._permute_param(param)
        foreign = self._read_elsewhere()
        for binding in self.function.body:
            if isinstance(binding.expr, KernelCall) and is_free(binding.expr.kernel):
                self._permute_kernel(binding, binding.expr, foreign)
            elif isinstance(binding.expr, MatchCast) and is_tensor_cast(binding):
                self._permute_cast(binding, binding.expr, foreign)
            else:
                self.body.append(binding)
        return replace(self.function, body=tuple(self.body))

    def _read_elsewhere(self) -> set[str]:
        """Return the values that outputs and bindings other than kernels read unpermuted."""
        names = {v.name for v in self.function.outputs}
        for binding in self.function.body:
            free = isinstance(binding.expr, KernelCall) and is_free(binding.expr.kernel)
            if not free and not self._is_moved(binding):
                names |= {v.name for v in binding.reads}
        return names

    def _is_moved(self, binding: Binding) -> bool:
        """Return True if a match_cast reads a permuted tensor and its results have that order."""
        names = [v.name for v in (*binding.vars, *binding.reads)]
        orders = {self.orders.get(name) for name in names}
        return is_tensor_cast(binding) and len(orders) == 1

    def _permute_cast(self, binding: Binding, cast: MatchCast, foreign: set[str]) -> None:
        """Permute a match_cast of a tensor."""
        old, source = binding.var, self.now.get(cast.arg.name)
        order = self.orders.get(old.name)
        if not self._is_moved(binding) or source is None or order is None:
            self.body.append(binding)
            return
        back = old.name in foreign
        name = self._fresh(f"{old.name}.channels_last") if back else old.name
        self.now[old.name] = new = Var(name, _permuted_type(old, order))
        self.body.append(Binding((new,), MatchCast(source), binding.origin))
        if back:
            self.body.append(_build_copy(old, new, _inverse_order(order), binding.origin))

    def _permute_param(self, param: Var) -> None:
        """Copy a parameter that weights are summed over to its new order, once."""
        order = self.orders.get(param.name)
        if order is None or not isinstance(param.type, Tensor):
            return
        readers = [b.origin for b in self.function.body if param in b.reads]
        new = Var(self._fresh(f"{param.name}.channels_last"), _permuted_type(param, order))
        origin = frozenset[str]().union(*readers[:1])
        self.body.append(_build_copy(new, param, order, origin))
        self.now[param.name] = new

    def _permute_kernel(self, binding: Binding, call: KernelCall, foreign: set[str]) -> None:
        old = binding.var
        weights = weights_of(call, self.weight_params)
        names = {
            t: self.orders[a.name]
            for t, a in zip(call.kernel.inputs, call.args, strict=True)
            if a.name in self.now and t not in weights
        }
        learnt = window_of_values(call.kernel) if not weighted_sum(call.kernel, weights) else None
        order = self.orders.get(old.name) if learnt is None else weight_gradient_order(*learnt)
        if order is not None:
            names[call.kernel.output] = order
        if not names and not has_window(call.kernel):
            self.body.append(binding)
            return
        kernel, moved = permute(call.kernel, names, weights, self.packs)
        args = tuple(
            self._permute_weights(a, moved[t], binding.origin)
            if t in moved
            else self.now[a.name]
            if t in names
            else a
            for t, a in zip(kernel.inputs, call.args, strict=True)
        )
        new, back = old, learnt is not None or old.name in foreign
        if order is not None:
            name = self._fresh(f"{old.name}.channels_last") if back else old.name
            new = Var(name, _permuted_type(old, order))
            if learnt is None:
                self.now[old.name] = new
        self.body.append(Binding((new,), replace(call, kernel=kernel, args=args), binding.origin))
        if order is not None and back:
            self.body.append(_build_copy(old, new, _inverse_order(order), binding.origin))

    def _permute_weights(self, value: Var, order: Order, origin: frozenset[str]) -> Var:
        """Return permuted weights: constants are permuted now, others once a run."""
        name = f"{value.name}.{''.join(map(str, order))}"
        if value.name in self.program.constants:
            if name not in self.constants:
                array = self.constants[value.name].array
                self.constants[name] = Constant(np.ascontiguousarray(array.transpose(order)))
            return Var(name, _permuted_type(value, order))
        if (value.name, order) not in self.weights:
            new = Var(self._fresh(name), _permuted_type(value, order))
            self.body.append(_build_copy(new, value, order, origin))
            self.weights[value.name, order] = new
        return self.weights[value.name, order]

    def _fresh(self, wish: str) -> str:
        taken = {v.name for b in (*self.function.body, *self.body) for v in b.vars}
        taken |= {p.name for p in self.function.params} | self.constants.keys()
        return fresh(wish, taken)


def _permuted_type(value: Var, order: Order) -> Tensor:
    return replace(value.tensor, shape=reordered(value.tensor.dims, order))


def _inverse_order(order: Order) -> Order:
    return tuple(order.index(d) for d in range(len(order)))


def _build_copy(result: Var, source: Var, order: Order, origin: frozenset[str]) -> Binding:
    """Build `result[i] = source[order^-1(i)]`: a view if no element moves in memory."""
    shape = source.tensor.dims
    if not moves_memory(shape, order):
        return Binding((result,), View(source), origin)
    return Binding(
        (result,),
        KernelCall(_transpose_kernel(shape, source.tensor.element, order, origin), (source,)),
        origin,
    )


def _transpose_kernel(shape: Shape, dtype: str, order: Order, origin: frozenset[str]) -> Kernel:
    axes = tuple(Axis(f"i{d}", shape[d]) for d in order)
    read = Read("x", tuple(var(f"i{d}") for d in range(len(shape))))
    compute = Compute("y", axes, read, origin=origin)
    specs = (TensorSpec("x", shape, dtype), TensorSpec("y", reordered(shape, order), dtype))
    return Kernel("transpose", specs, (compute,), ("x",), ("y",))


def _weight_params(program: Program, function: Function) -> frozenset[str]:
    """Return the parameters that may be weights; none for a loop's body, as they change."""
    main = function.name == program.main.name
    return frozenset(p.name for p in function.params) if main else frozenset()


def _fold_views_into_readers(
    program: Program, function: Function, weight_params: AbstractSet[str]
) -> Function:
    """Let kernels read an image instead of its flattened view, so that it may be permuted.

    This applies to kernels that sum over the image, and, if the image will be permuted, to kernels
    that iterate over its pixels as rows.
    """
    moved = _permuted_values(function, weight_params)
    views: dict[str, Binding] = {}
    body: list[Binding] = []
    for binding in function.body:
        copy = copy_map(binding)
        if copy is not None and _is_image(copy[0], isinstance(binding.expr, View), moved):
            views[binding.vars[0].name] = binding
        call, origin = binding.expr, binding.origin
        while isinstance(call, KernelCall):
            step = _fold_one_view(program, call, views, moved)
            if step is None:
                break
            call, origin = step[0], origin | step[1]
        body.append(replace(binding, expr=call, origin=origin))
    read = {v.name for b in body for v in b.reads} | {v.name for v in function.outputs}
    live_body = tuple(b for b in body if b.vars[0].name not in views or b.vars[0].name in read)
    return replace(function, body=live_body)


def _is_image(source: Var, is_view: bool, moved: set[str]) -> bool:
    """Return True if the source of a view or copy is an image that is read in place."""
    image = isinstance(source.type, Tensor) and len(source.type.dims) > 3
    return image and (is_view or source.name in moved)


def _fold_one_view(
    program: Program, call: KernelCall, views: Mapping[str, Binding], moved: set[str]
) -> tuple[KernelCall, frozenset[str]] | None:
    for place, arg in enumerate(call.args):
        view = views.get(arg.name)
        copy = None if view is None else copy_map(view)
        if view is None or copy is None:
            continue
        may_split = split_if_free_or_reduction if copy[0].name in moved else split_if_free
        new = read_through(call, place, copy[0], copy[1], program.env, may_split, view.origin)
        if new is not None:
            return new, view.origin
    return None


def _fold_views_into_stores(
    program: Program, function: Function, weight_params: AbstractSet[str]
) -> Function:
    """Let a kernel write an image that will be permuted instead of its flattened form."""
    moved = _permuted_values(function, weight_params)
    uses = Counter(v.name for b in function.body for v in b.reads)
    uses.update(v.name for v in function.outputs)
    body: dict[str, Binding] = {}
    for binding in function.body:
        copy = copy_map(binding) if isinstance(binding.expr, View) else None
        stored, source = None, "" if copy is None else copy[0].name
        if binding.vars[0].name in moved and uses[source] == 1:
            stored = _store_view(program, body.get(source), binding, weight_params)
        if stored is None:
            body[binding.vars[0].name] = binding
        else:
            body = {stored.var.name if n == source else n: b for n, b in body.items()}
            body[stored.var.name] = stored
    return replace(function, body=tuple(body.values()))


def _store_view(
    program: Program, producer: Binding | None, view: Binding, weight_params: AbstractSet[str]
) -> Binding | None:
    """Return the kernel behind a view, writing the view's result."""
    copy = copy_map(view)
    if producer is None or copy is None or not isinstance(producer.expr, KernelCall):
        return None
    producer_call = producer.expr
    values = multiplies_values(producer_call.kernel, weights_of(producer_call, weight_params))
    may_split = split_everywhere if values else split_if_free_or_reduction
    call = store_through(producer_call, view.var, copy[1], program.env, may_split, view.origin)
    return None if call is None else Binding((view.var,), call, producer.origin | view.origin)


def _permuted_values(function: Function, weight_params: AbstractSet[str]) -> set[str]:
    """Return the values that will be permuted."""
    return {
        n for n, order in choose_orders(function, weight_params).items() if not is_identity(order)
    }
