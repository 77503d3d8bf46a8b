"""A scale and a shift behind a product with constant weights become part of the weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import KernelCall, Var
from explorer.ir.kernel import Apply, Compute, Kernel, Read, TensorSpec, apply, reads, rewrite
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import matched
from explorer.passes.simplify.dead_code import uses
from explorer.passes.simplify.linear_form import Linear, linear_form


@compiler_pass(
    "fold-batch-norm", paper="Jacob et al. 2018, section 3.2 (batch normalization folding)"
)
def fold_batch_norm(program: Program) -> Program:
    """After: no scale by channel follows a sum of products with constant weights.

    `t = sum(x * w); y = (t + b) * s + m` becomes `t = sum(x * (w * s)); y = t + (b * s + m)`.
    """
    constants = dict(program.constants)
    functions = tuple(_folded(f, constants) for f in program.functions)
    if len(constants) == len(program.constants):
        return program
    return replace(program, functions=functions, constants=constants)


@dataclass(frozen=True, slots=True)
class _Weighted:
    """A sum of products with a constant: the compute, its constant operand, and the dims that
    agree.

    `dim` of the result and `weight_dim` of the weights have the same index: the channel.
    """

    compute: Compute
    data: Read
    weight: Read
    dim: int
    weight_dim: int


def _folded(function: Function, constants: dict[str, Constant]) -> Function:
    read_by, outputs = uses(function), {v.name for v in function.outputs}
    gone: set[str] = set()
    new: dict[str, Binding] = {}
    for binding in function.body:
        if binding.vars[0].name in gone:
            continue
        chain = list(_chain(binding, read_by, outputs, constants))
        merged = _merged(binding, chain, constants) if chain else None
        if merged is not None:
            gone |= {b.var.name for b in (binding, *(c for c, _ in chain))} - {merged.var.name}
            new[merged.var.name] = merged
            matched(fold_batch_norm, (binding, *(c for c, _ in chain)), (merged,))
    if not new:
        return function
    body = tuple(new.get(b.vars[0].name, b) for b in function.body if b.vars[0].name not in gone)
    return replace(function, body=body)


def _weighted(call: KernelCall, constants: Mapping[str, Constant]) -> _Weighted | None:
    kernel, c = call.kernel, call.kernel.computes[0]
    if c.combiner != "sum" or kernel.dtype(c.out) != "float32":
        return None
    given = dict(zip(kernel.inputs, call.args, strict=True))
    match c.expr:
        case Apply("mul", (Read() as a, Read() as b)):
            for data, weight in ((a, b), (b, a)):
                known = given.get(weight.tensor)
                if known is None or known.name not in constants or data.tensor == weight.tensor:
                    continue
                for d, entry in enumerate(c.target):
                    places = [e for e, i in enumerate(weight.index) if i == entry and entry.terms]
                    if places and weight.fill is None:
                        return _Weighted(c, data, weight, d, places[0])
    return None


def _chain(
    binding: Binding,
    read_by: Mapping[str, list[Binding]],
    outputs: set[str],
    constants: Mapping[str, Constant],
) -> Iterator[tuple[Binding, Linear]]:
    """The kernels behind a weighted sum that only scale and shift its channels, one after the
    other.
    """
    if not isinstance(binding.expr, KernelCall):
        return
    if len(binding.vars) > 1:
        return
    found = _weighted(binding.expr, constants)
    if found is None or _own_form(binding.expr, found, constants) is None:
        return
    channels, last = _channels(binding.expr, found), binding
    while last.var.name not in outputs:
        users = read_by.get(last.var.name, [])
        form = (
            _form(users[0], last.var, found.dim, channels, constants) if len(users) == 1 else None
        )
        if form is None:
            return
        yield users[0], form
        last = users[0]


def _channels(call: KernelCall, found: _Weighted) -> object:
    return call.kernel.shape(found.weight.tensor)[found.weight_dim]


def _own_form(
    call: KernelCall, found: _Weighted, constants: Mapping[str, Constant]
) -> Linear | None:
    """What the kernel itself does to its sum: nothing, or a scale and a shift."""
    rest = call.kernel.computes[1:]
    if not rest:
        return Linear(1.0, 0.0)
    if len(rest) > 1 or rest[0].reduce:
        return None
    given = {
        n: constants[v.name].array
        for n, v in zip(call.kernel.inputs, call.args, strict=True)
        if v.name in constants
    }
    own = rest[0]
    loads = [r for r in reads(own.expr) if r.tensor == found.compute.out]
    if len(loads) != 1 or loads[0].index != own.target or loads[0].fill is not None:
        return None
    return _over_channels(own, loads[0], found.dim, given)


def _over_channels(
    c: Compute, load: Read, dim: int, arrays: Mapping[str, np.ndarray]
) -> Linear | None:
    """The form of a compute whose constants vary along the index of one dim."""
    entry = c.target[dim]
    if entry.bare is None:  # g * each + o: read as one axis
        name = "channel"
        moved = _renamed(c, entry, name)
        return linear_form(moved, load, name, arrays)
    return linear_form(c.expr, load, entry.bare, arrays)


def _renamed(c: Compute, entry: Affine, name: str) -> Apply | Read:
    """The expression with the constants' merged channel index as one variable."""

    def leaf(read: Read) -> Read:
        if len(read.index) == 1 and read.index[0] == entry:
            return replace(read, index=(var(name),))
        return read

    found = rewrite(c.expr, leaf)
    assert isinstance(found, Apply | Read)
    return found


def _form(
    user: Binding, value: Var, dim: int, channels: object, constants: Mapping[str, Constant]
) -> Linear | None:
    """The form of a kernel that reads a value point by point and constants by channel."""
    call = user.expr
    if not isinstance(call, KernelCall) or len(call.kernel.computes) != 1:
        return None
    kernel, c = call.kernel, call.kernel.computes[0]
    names = [n for n, v in zip(kernel.inputs, call.args, strict=True) if v == value]
    others = {
        n: constants[v.name].array
        for n, v in zip(kernel.inputs, call.args, strict=True)
        if v.name in constants
    }
    if c.reduce or len(names) != 1 or len(others) + 1 != len(kernel.inputs):
        return None
    loads = {r for r in reads(c.expr) if r.tensor == names[0]}
    if len(loads) != 1 or kernel.shape(names[0]) != kernel.shape(kernel.output):
        return None
    load = loads.pop()
    shape = kernel.shape(kernel.output)
    plain = all(i == t or n == 1 for i, t, n in zip(load.index, c.target, shape, strict=True))
    if load.fill is not None or not plain or shape[dim] != channels:
        return None
    return _over_channels(c, load, dim, others)


def _merged(
    binding: Binding, chain: list[tuple[Binding, Linear]], constants: dict[str, Constant]
) -> Binding | None:
    """One kernel for a weighted sum and the chain behind it, with constants of its own."""
    call = binding.kernel_call
    found = _weighted(call, constants)
    assert found is not None
    total = _own_form(call, found, constants)
    for _, form in chain:
        total = None if total is None else total.then(form)
    if total is None or np.all(total.scale == 1.0):
        return None
    given = dict(zip(call.kernel.inputs, call.args, strict=True))
    weight = constants[given[found.weight.tensor].name].array
    along = [1] * weight.ndim
    along[found.weight_dim] = -1
    count = int(weight.shape[found.weight_dim])
    both = (np.broadcast_to(v, (count,)) for v in (total.scale, total.shift))
    scale, shift = (v.astype(np.float32) for v in both)
    if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
        return None
    arrays = weight * scale.reshape(along), shift
    result = chain[-1][0].var
    origin = binding.origin.union(*(b.origin for b, _ in chain))
    made = [
        _constant(f"{result.name}.{hint}", a, constants)
        for hint, a in zip(("weight", "shift"), arrays, strict=True)
    ]
    new = _kernel(call.kernel, found, origin, (count,), bool(shift.any()))
    args = (given[found.data.tensor], *made)[: len(new.inputs)]
    return Binding((result,), KernelCall(new, args), origin)


def _constant(name: str, array: np.ndarray, constants: dict[str, Constant]) -> Var:
    name = fresh(name, constants)
    constants[name] = Constant(array)
    return Var(name, Tensor(tuple(array.shape), "float32"))


def _kernel(
    kernel: Kernel, found: _Weighted, origin: frozenset[str], channels: tuple[int], shifted: bool
) -> Kernel:
    """The sum, and a shift by channel behind it where there is one."""
    c = replace(found.compute, origin=found.compute.origin | origin)
    data, weight = (kernel.spec(r.tensor) for r in (found.data, found.weight))
    out = kernel.spec(kernel.output)
    constants = frozenset({weight.name}) | (kernel.constants & {data.name})
    if not shifted:
        c = replace(c, out=out.name)
        return Kernel(
            kernel.name, (data, weight, out), (c,), (data.name, weight.name), (out.name,), constants
        )
    names = {data.name, weight.name, out.name}
    shift, acc = (
        next(n for n in (w, f"{w}_", f"{w}__") if n not in names) for w in ("shift", "acc")
    )
    total = apply("add", Read(acc, c.target), Read(shift, (c.target[found.dim],)))
    second = Compute(out.name, c.axes, total, store=c.store, origin=origin)
    tensors = (data, weight, TensorSpec(shift, channels), replace(out, name=acc), out)
    return Kernel(
        kernel.name,
        tensors,
        (replace(c, out=acc), second),
        (data.name, weight.name, shift),
        (out.name,),
        constants | {shift},
    )
