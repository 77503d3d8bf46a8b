"""Channels last: the values of a convolutional network lie so that the summed and the written
channel is dense.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.affine import var
from explorer.ir.calls import KernelCall, MatchCast, Var, View
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec
from explorer.ir.patterns.sliding import has_window
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.shapes.dims import Shape
from explorer.ir.types import Tensor
from explorer.passes.copies.copy_maps import copy_map
from explorer.passes.copies.fold_into import (
    everywhere,
    read_through,
    store_through,
    where_folded,
    where_free,
)
from explorer.passes.layout.channel_order import order_channels
from explorer.passes.layout.memory_order import (
    Order,
    choose_orders,
    has_windows,
    is_free,
    is_identity,
    is_tensor_cast,
    learnt_order,
)
from explorer.passes.layout.permute import moves_memory, permute, reordered
from explorer.passes.layout.weights import (
    multiplies_values,
    weighted_sum,
    weights_of,
    window_of_values,
)
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass


@compiler_pass(
    "layout", paper="Liu et al. 2019, Optimizing CNN model inference on CPUs, section 3.2"
)
@dataclass(frozen=True, slots=True)
class ChooseLayout:
    """After: where there is a convolution, channels lie dense, windows are iterated over as their
    results lie in memory, and channels that are shuffled into pixels lie in the order of the
    pixels; inputs and outputs of the program lie as before.

    `y[n, o, h, w] = sum over c: x[n, c, h, w] * w[o, c]` becomes `y[n, h, w, o] = sum over c: x[n,
    h, w, c] * w[o, c]`. No kernel is known by name: index maps and loop orders are permuted,
    weights move at compile time. `packs`: but those that contractions pack, which a GPU does not.
    """

    packs: bool = True

    def __call__(self, program: Program) -> Program:
        """The program in the new order."""
        constants = dict(program.constants)
        for function in program.functions:
            if has_windows(function):
                made = _Layout(program, function, constants, self.packs).function_after()
                program = program.with_function(made)
        return order_channels(replace(program, constants=constants))


class _Layout:
    """One function while its values get their order in memory."""

    def __init__(
        self, program: Program, function: Function, constants: dict[str, Constant], packs: bool
    ) -> None:
        self.program, self.constants, self.packs = program, constants, packs
        self.given = _given(program, function)
        made = _views_into_stores(program, function, self.given)
        self.function = _views_into_readers(program, made, self.given)
        self.orders = {
            name: order
            for name, order in choose_orders(self.function, self.given).items()
            if not is_identity(order)
        }
        self.body: list[Binding] = []
        self.now: dict[str, Var] = {}  # each permuted value, under the name it has in its new order
        self.weights: dict[tuple[str, Order], Var] = {}  # those that a run moves

    def function_after(self) -> Function:
        """The function with permuted kernels, and copies at the border."""
        for param in self.function.params:
            self._border_in(param)
        foreign = self._read_elsewhere()
        for binding in self.function.body:
            if isinstance(binding.expr, KernelCall) and is_free(binding.expr.kernel):
                self._kernel(binding, binding.expr, foreign)
            elif isinstance(binding.expr, MatchCast) and is_tensor_cast(binding):
                self._cast(binding, binding.expr, foreign)
            else:
                self.body.append(binding)
        return replace(self.function, body=tuple(self.body))

    def _read_elsewhere(self) -> set[str]:
        """Values that outputs and bindings other than kernels need as they were."""
        names = {v.name for v in self.function.outputs}
        for binding in self.function.body:
            free = isinstance(binding.expr, KernelCall) and is_free(binding.expr.kernel)
            if not free and not self._is_moved(binding):
                names |= {v.name for v in binding.reads}
        return names

    def _is_moved(self, binding: Binding) -> bool:
        """Whether a match_cast is of a tensor in its new order, which all that it gives has too."""
        names = [v.name for v in (*binding.vars, *binding.reads)]
        orders = {self.orders.get(name) for name in names}
        return is_tensor_cast(binding) and len(orders) == 1

    def _cast(self, binding: Binding, cast: MatchCast, foreign: set[str]) -> None:
        """A match_cast of a tensor, in the order that this has."""
        old, source = binding.var, self.now.get(cast.arg.name)
        order = self.orders.get(old.name)
        if not self._is_moved(binding) or source is None or order is None:
            self.body.append(binding)
            return
        back = old.name in foreign
        name = self._fresh(f"{old.name}.channels_last") if back else old.name
        self.now[old.name] = new = Var(name, _permuted(old, order))
        self.body.append(Binding((new,), MatchCast(source), binding.origin))
        if back:
            self.body.append(_copy(old, new, _inverse(order), binding.origin))

    def _border_in(self, param: Var) -> None:
        """A parameter that weights are summed over is copied into its new order once."""
        order = self.orders.get(param.name)
        if order is None or not isinstance(param.type, Tensor):
            return
        readers = [b.origin for b in self.function.body if param in b.reads]
        new = Var(self._fresh(f"{param.name}.channels_last"), _permuted(param, order))
        origin = frozenset[str]().union(*readers[:1])
        self.body.append(_copy(new, param, order, origin))
        self.now[param.name] = new

    def _kernel(self, binding: Binding, call: KernelCall, foreign: set[str]) -> None:
        old = binding.var
        weights = weights_of(call, self.given)
        names = {
            t: self.orders[a.name]
            for t, a in zip(call.kernel.inputs, call.args, strict=True)
            if a.name in self.now and t not in weights
        }
        learnt = window_of_values(call.kernel) if not weighted_sum(call.kernel, weights) else None
        order = self.orders.get(old.name) if learnt is None else learnt_order(*learnt)
        if order is not None:
            names[call.kernel.output] = order
        if not names and not has_window(call.kernel):
            self.body.append(binding)
            return
        kernel, moved = permute(call.kernel, names, weights, self.packs)
        args = tuple(
            self._weights(a, moved[t], binding.origin)
            if t in moved
            else self.now[a.name]
            if t in names
            else a
            for t, a in zip(kernel.inputs, call.args, strict=True)
        )
        new, back = old, learnt is not None or old.name in foreign
        if order is not None:
            name = self._fresh(f"{old.name}.channels_last") if back else old.name
            new = Var(name, _permuted(old, order))
            if learnt is None:
                self.now[old.name] = new
        self.body.append(Binding((new,), replace(call, kernel=kernel, args=args), binding.origin))
        if order is not None and back:
            self.body.append(_copy(old, new, _inverse(order), binding.origin))

    def _weights(self, value: Var, order: Order, origin: frozenset[str]) -> Var:
        """Weights with their dims in another order: constants move now, others once a run."""
        name = f"{value.name}.{''.join(map(str, order))}"
        if value.name in self.program.constants:
            if name not in self.constants:
                array = self.constants[value.name].array
                self.constants[name] = Constant(np.ascontiguousarray(array.transpose(order)))
            return Var(name, _permuted(value, order))
        if (value.name, order) not in self.weights:
            new = Var(self._fresh(name), _permuted(value, order))
            self.body.append(_copy(new, value, order, origin))
            self.weights[value.name, order] = new
        return self.weights[value.name, order]

    def _fresh(self, wish: str) -> str:
        taken = {v.name for b in (*self.function.body, *self.body) for v in b.vars}
        taken |= {p.name for p in self.function.params} | self.constants.keys()
        return fresh(wish, taken)


def _permuted(value: Var, order: Order) -> Tensor:
    return replace(value.tensor, shape=reordered(value.tensor.dims, order))


def _inverse(order: Order) -> Order:
    return tuple(order.index(d) for d in range(len(order)))


def _copy(result: Var, source: Var, order: Order, origin: frozenset[str]) -> Binding:
    """`result[i] = source[order^-1(i)]`: a view where no element changes its place."""
    shape = source.tensor.dims
    if not moves_memory(shape, order):
        return Binding((result,), View(source), origin)
    return Binding(
        (result,),
        KernelCall(_transpose(shape, source.tensor.element, order, origin), (source,)),
        origin,
    )


def _transpose(shape: Shape, dtype: str, order: Order, origin: frozenset[str]) -> Kernel:
    axes = tuple(Axis(f"i{d}", shape[d]) for d in order)
    read = Read("x", tuple(var(f"i{d}") for d in range(len(shape))))
    compute = Compute("y", axes, read, origin=origin)
    specs = (TensorSpec("x", shape, dtype), TensorSpec("y", reordered(shape, order), dtype))
    return Kernel("transpose", specs, (compute,), ("x",), ("y",))


def _given(program: Program, function: Function) -> frozenset[str]:
    """The parameters that may be weights: a loop's body is given values that change."""
    main = function.name == program.main.name
    return frozenset(p.name for p in function.params) if main else frozenset()


def _views_into_readers(program: Program, function: Function, given: AbstractSet[str]) -> Function:
    """After: a kernel that reads a flattened image reads the image itself, so that the image may be
    permuted: one that sums over it, and, where the image will be, one that iterates over its pixels
    as rows.
    """
    moved = _moved(function, given)
    views: dict[str, Binding] = {}
    body: list[Binding] = []
    for binding in function.body:
        found = copy_map(binding)
        if found is not None and _is_image(found[0], isinstance(binding.expr, View), moved):
            views[binding.vars[0].name] = binding
        call, origin = binding.expr, binding.origin
        while isinstance(call, KernelCall):
            step = _one_view(program, call, views, moved)
            if step is None:
                break
            call, origin = step[0], origin | step[1]
        body.append(replace(binding, expr=call, origin=origin))
    read = {v.name for b in body for v in b.reads} | {v.name for v in function.outputs}
    kept = tuple(b for b in body if b.vars[0].name not in views or b.vars[0].name in read)
    return replace(function, body=kept)


def _is_image(source: Var, is_view: bool, moved: set[str]) -> bool:
    """Whether what a view, or a copy, shows is to be read where it lies."""
    image = isinstance(source.type, Tensor) and len(source.type.dims) > 3
    return image and (is_view or source.name in moved)


def _one_view(
    program: Program, call: KernelCall, views: Mapping[str, Binding], moved: set[str]
) -> tuple[KernelCall, frozenset[str]] | None:
    for place, arg in enumerate(call.args):
        view = views.get(arg.name)
        found = None if view is None else copy_map(view)
        if view is None or found is None:
            continue
        may_split = where_folded if found[0].name in moved else where_free
        new = read_through(call, place, found[0], found[1], program.env, may_split, view.origin)
        if new is not None:
            return new, view.origin
    return None


def _views_into_stores(program: Program, function: Function, given: AbstractSet[str]) -> Function:
    """After: a kernel whose flattened result is an image that will be permuted writes the image."""
    moved = _moved(function, given)
    uses = Counter(v.name for b in function.body for v in b.reads)
    uses.update(v.name for v in function.outputs)
    body: dict[str, Binding] = {}
    for binding in function.body:
        found = copy_map(binding) if isinstance(binding.expr, View) else None
        stored, source = None, "" if found is None else found[0].name
        if binding.vars[0].name in moved and uses[source] == 1:
            stored = _stored(program, body.get(source), binding, given)
        if stored is None:
            body[binding.vars[0].name] = binding
        else:
            body = {stored.var.name if n == source else n: b for n, b in body.items()}
            body[stored.var.name] = stored
    return replace(function, body=tuple(body.values()))


def _stored(
    program: Program, producer: Binding | None, view: Binding, given: AbstractSet[str]
) -> Binding | None:
    """The kernel behind a view, writing what the view shows."""
    found = copy_map(view)
    if producer is None or found is None or not isinstance(producer.expr, KernelCall):
        return None
    made = producer.expr
    values = multiplies_values(made.kernel, weights_of(made, given))
    may_split = everywhere if values else where_folded
    call = store_through(made, view.var, found[1], program.env, may_split, view.origin)
    return None if call is None else Binding((view.var,), call, producer.origin | view.origin)


def _moved(function: Function, given: AbstractSet[str]) -> set[str]:
    """The values that will lie in another order."""
    return {n for n, order in choose_orders(function, given).items() if not is_identity(order)}
