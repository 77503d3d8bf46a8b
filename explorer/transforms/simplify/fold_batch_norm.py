"""Scales and shifts behind a contraction, folded into its constant weights.

A chain of element-wise operators is a scale and a shift if it is a linear form, `scale * x + shift`
with a known scale and shift for each channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import KernelCall, Var
from explorer.ir.kernel import (
    Apply,
    Compute,
    Const,
    Expr,
    Kernel,
    Read,
    TensorSpec,
    apply,
    reads,
    rewrite,
)
from explorer.ir.program import Binding, Constant, Function, Program, fresh
from explorer.ir.types import Tensor
from explorer.ops.interpreter.scalar import call
from explorer.passes.registry import compiler_pass
from explorer.transforms.rewrite import record_match
from explorer.transforms.simplify.redundancy import uses


@compiler_pass(
    "fold-batch-norm", paper="Jacob et al. 2018, section 3.2 (batch normalization folding)"
)
def fold_batch_norm(program: Program) -> Program:
    """Fold scales and shifts by channel into constant weights.

    After: no scale by channel follows a contraction with constant weights.
    `t = sum(x * w); y = (t + b) * s + m` becomes `t = sum(x * (w * s)); y = t + (b * s + m)`.
    """
    constants = dict(program.constants)
    functions = tuple(_fold_function(f, constants) for f in program.functions)
    if len(constants) == len(program.constants):
        return program
    return replace(program, functions=functions, constants=constants)


@dataclass(frozen=True, slots=True)
class _Weighted:
    """A contraction with a constant: the compute, its operands, and the dims of the channel.

    `dim` of the result and `weight_dim` of the weights have the same index: the channel.
    """

    compute: Compute
    data: Read
    weight: Read
    dim: int
    weight_dim: int


def _fold_function(function: Function, constants: dict[str, Constant]) -> Function:
    read_by, outputs = uses(function), {v.name for v in function.outputs}
    gone: set[str] = set()
    new: dict[str, Binding] = {}
    for binding in function.body:
        if binding.vars[0].name in gone:
            continue
        chain = list(_match_chain(binding, read_by, outputs, constants))
        merged = _merge_chain(binding, chain, constants) if chain else None
        if merged is not None:
            gone |= {b.var.name for b in (binding, *(c for c, _ in chain))} - {merged.var.name}
            new[merged.var.name] = merged
            record_match(fold_batch_norm, (binding, *(c for c, _ in chain)), (merged,))
    if not new:
        return function
    body = tuple(new.get(b.vars[0].name, b) for b in function.body if b.vars[0].name not in gone)
    return replace(function, body=body)


def _match_weighted(call: KernelCall, constants: Mapping[str, Constant]) -> _Weighted | None:
    kernel, c = call.kernel, call.kernel.computes[0]
    if c.combiner != "sum" or kernel.dtype(c.out) != "float32":
        return None
    args = dict(zip(kernel.inputs, call.args, strict=True))
    match c.expr:
        case Apply("mul", (Read() as a, Read() as b)):
            for data, weight in ((a, b), (b, a)):
                constant = args.get(weight.tensor)
                if (
                    constant is None
                    or constant.name not in constants
                    or data.tensor == weight.tensor
                ):
                    continue
                for d, entry in enumerate(c.target):
                    places = [e for e, i in enumerate(weight.index) if i == entry and entry.terms]
                    if places and weight.fill is None:
                        return _Weighted(c, data, weight, d, places[0])
    return None


def _match_chain(
    binding: Binding,
    read_by: Mapping[str, list[Binding]],
    outputs: set[str],
    constants: Mapping[str, Constant],
) -> Iterator[tuple[Binding, Linear]]:
    """Yield the kernels behind a contraction that only scale and shift its channels, in order."""
    if not isinstance(binding.expr, KernelCall):
        return
    if len(binding.vars) > 1:
        return
    weighted = _match_weighted(binding.expr, constants)
    if weighted is None or _own_form(binding.expr, weighted, constants) is None:
        return
    channels, last = _channel_extent(binding.expr, weighted), binding
    while last.var.name not in outputs:
        users = read_by.get(last.var.name, [])
        form = (
            _match_form(users[0], last.var, weighted.dim, channels, constants)
            if len(users) == 1
            else None
        )
        if form is None:
            return
        yield users[0], form
        last = users[0]


def _channel_extent(call: KernelCall, weighted: _Weighted) -> object:
    return call.kernel.shape(weighted.weight.tensor)[weighted.weight_dim]


def _own_form(
    call: KernelCall, weighted: _Weighted, constants: Mapping[str, Constant]
) -> Linear | None:
    """Return the scale and shift that the kernel itself applies to its sum, identity if none."""
    later = call.kernel.computes[1:]
    if not later:
        return Linear(1.0, 0.0)
    if len(later) > 1 or later[0].reduce:
        return None
    arrays = {
        n: constants[v.name].array
        for n, v in zip(call.kernel.inputs, call.args, strict=True)
        if v.name in constants
    }
    own = later[0]
    loads = [r for r in reads(own.expr) if r.tensor == weighted.compute.out]
    if len(loads) != 1 or loads[0].index != own.target or loads[0].fill is not None:
        return None
    return _over_channels(own, loads[0], weighted.dim, arrays)


def _over_channels(
    c: Compute, load: Read, dim: int, arrays: Mapping[str, np.ndarray]
) -> Linear | None:
    """Return the linear form of a compute whose constants vary along the index of one dim."""
    entry = c.target[dim]
    if entry.bare is None:  # g * each + o: read as one axis
        name = "channel"
        moved = _with_channel_axis(c, entry, name)
        return linear_form(moved, load, name, arrays)
    return linear_form(c.expr, load, entry.bare, arrays)


def _with_channel_axis(c: Compute, entry: Affine, name: str) -> Apply | Read:
    """Replace the constants' merged channel index by one variable."""

    def leaf(read: Read) -> Read:
        if len(read.index) == 1 and read.index[0] == entry:
            return replace(read, index=(var(name),))
        return read

    expr = rewrite(c.expr, leaf)
    assert isinstance(expr, Apply | Read)
    return expr


def _match_form(
    user: Binding, value: Var, dim: int, channels: object, constants: Mapping[str, Constant]
) -> Linear | None:
    """Return the linear form of a kernel over an element-wise value and constants by channel."""
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


def _merge_chain(
    binding: Binding, chain: list[tuple[Binding, Linear]], constants: dict[str, Constant]
) -> Binding | None:
    """Build one kernel for a contraction and the chain behind it, with new constants."""
    call = binding.kernel_call
    weighted = _match_weighted(call, constants)
    assert weighted is not None
    total = _own_form(call, weighted, constants)
    for _, form in chain:
        total = None if total is None else total.then(form)
    if total is None or np.all(total.scale == 1.0):
        return None
    operands = dict(zip(call.kernel.inputs, call.args, strict=True))
    weight = constants[operands[weighted.weight.tensor].name].array
    along = [1] * weight.ndim
    along[weighted.weight_dim] = -1
    count = int(weight.shape[weighted.weight_dim])
    both = (np.broadcast_to(v, (count,)) for v in (total.scale, total.shift))
    scale, shift = (v.astype(np.float32) for v in both)
    if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
        return None
    arrays = weight * scale.reshape(along), shift
    result = chain[-1][0].var
    origin = binding.origin.union(*(b.origin for b, _ in chain))
    new_constants = [
        _add_constant(f"{result.name}.{hint}", a, constants)
        for hint, a in zip(("weight", "shift"), arrays, strict=True)
    ]
    new = _build_kernel(call.kernel, weighted, origin, (count,), bool(shift.any()))
    args = (operands[weighted.data.tensor], *new_constants)[: len(new.inputs)]
    return Binding((result,), KernelCall(new, args), origin)


def _add_constant(name: str, array: np.ndarray, constants: dict[str, Constant]) -> Var:
    name = fresh(name, constants)
    constants[name] = Constant(array)
    return Var(name, Tensor(tuple(array.shape), "float32"))


def _build_kernel(
    kernel: Kernel, weighted: _Weighted, origin: frozenset[str], channels: tuple[int], shifted: bool
) -> Kernel:
    """Build the contraction, followed by a shift by channel if there is one."""
    c = replace(weighted.compute, origin=weighted.compute.origin | origin)
    data, weight = (kernel.spec(r.tensor) for r in (weighted.data, weighted.weight))
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
    total = apply("add", Read(acc, c.target), Read(shift, (c.target[weighted.dim],)))
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


@dataclass(frozen=True, slots=True)
class Linear:
    """`scale * x + shift`; each a number or an array over channels, in double precision."""

    scale: Any
    shift: Any

    def then(self, after: Linear) -> Linear:
        """Compose this form with a form applied to its result."""
        return Linear(self.scale * after.scale, self.shift * after.scale + after.shift)


def linear_form(
    expr: Expr, x: Read, channel: str | None, constants: Mapping[str, np.ndarray]
) -> Linear | None:
    """Return the linear form of an expression in one read, or None if it is not linear.

    Args:
        expr: the expression.
        x: the read that the form is linear in.
        channel: the axis that the constants may vary along.
        constants: arrays by tensor name.
    """
    match expr:
        case Read() if expr == x:
            return Linear(1.0, 0.0)
        case Read(tensor, index, None) if tensor in constants:
            value = _along(constants[tensor], index, channel)
            return None if value is None else Linear(0.0, value)
        case Const(value, dtype) if isinstance(value, int | float) and dtype == "float32":
            return Linear(0.0, float(value))
        case Apply(op, args):
            parts = [linear_form(a, x, channel, constants) for a in args]
            forms = [p for p in parts if p is not None]
            return _apply(op, forms) if len(forms) == len(args) else None
    return None


def _along(array: np.ndarray, index: tuple[Affine | Expr, ...], channel: str | None) -> Any:
    """Return a constant as an array over the channel axis, or None if it varies along others."""
    picked: list[int | slice] = []
    for entry in index:
        if not isinstance(entry, Affine):
            return None
        if not entry.terms and isinstance(entry.const, int):
            picked.append(entry.const)
        elif channel is not None and entry.bare == channel:
            picked.append(slice(None))
        else:
            return None
    values = array[tuple(picked)].astype(np.float64)
    return values if values.ndim < 2 else None


def _apply(op: str, parts: list[Linear]) -> Linear | None:
    if all(_is_constant(p) for p in parts):
        with np.errstate(all="ignore"):
            return Linear(0.0, call(op, [p.shift for p in parts]))
    match op, parts:
        case "add", [a, b]:
            return Linear(a.scale + b.scale, a.shift + b.shift)
        case "sub", [a, b]:
            return Linear(a.scale - b.scale, a.shift - b.shift)
        case "neg", [a]:
            return Linear(-a.scale, -a.shift)
        case "mul", [a, b] if _is_constant(b):
            return Linear(a.scale * b.shift, a.shift * b.shift)
        case "mul", [a, b] if _is_constant(a):
            return Linear(b.scale * a.shift, b.shift * a.shift)
        case "div", [a, b] if _is_constant(b):
            with np.errstate(all="ignore"):
                return Linear(a.scale / b.shift, a.shift / b.shift)
    return None


def _is_constant(form: Linear) -> bool:
    return bool(np.all(form.scale == 0.0))
