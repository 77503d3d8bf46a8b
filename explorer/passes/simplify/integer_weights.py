"""Weights that are small integers times a scale stay so in memory: the scale leaves the sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Var
from explorer.ir.dtypes import integer_limits, is_integer
from explorer.ir.kernel import (
    Apply,
    Axis,
    Compute,
    Const,
    Expr,
    Kernel,
    Read,
    TensorSpec,
    reads,
    rewrite,
    substitute,
)
from explorer.ir.kernels.normal import writers
from explorer.ir.patterns.contraction import product_of
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor
from explorer.ops.reference.evaluate import evaluate_kernel
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass


@compiler_pass(
    "integer-weights",
    paper="Jacob et al. 2018, Quantization and training of neural networks for efficient "
    "integer-arithmetic-only inference, section 2.2",
)
def keep_integer_weights(program: Program) -> Program:
    """After: a sum of products with such weights reads integers of a byte, a quarter of the bytes.

    `b[k, j] = (w[k, j] - zero) * s[j]; y[i, j] = sum over k: a[i, k] * b[k, j]` becomes `y[i, j] =
    (sum over k: a[i, k] * w'[k, j]) * s[j]`. No operator is known by name. Where the scale changes
    along what is summed, nothing does.
    """
    constants = dict(program.constants)
    functions = tuple(_Weights(f, constants).function_after() for f in program.functions)
    if len(constants) == len(program.constants):
        return program
    return replace(program, functions=functions, constants=constants)


@dataclass(frozen=True, slots=True)
class Scaled:
    """A value that is `integers * scale`, the scale at these axes of it."""

    integers: np.ndarray
    axes: tuple[Axis, ...]
    scale: Read | Const
    vector: Var | None  # what the scale is read from
    origin: frozenset[str]


class _Weights:
    """One function while its weights become integers again."""

    def __init__(self, function: Function, constants: dict[str, Constant]) -> None:
        self.function, self.constants = function, constants
        self.taken = {*constants, *(v.name for b in function.body for v in b.vars)}

    def function_after(self) -> Function:
        """The function with scales behind its sums; weights that nothing reads are left there."""
        known: dict[str, Scaled] = {}
        body: list[Binding] = []
        for binding in self.function.body:
            call = binding.expr
            if isinstance(call, KernelCall):
                for place, arg in enumerate(call.args):
                    if arg.name in known:
                        binding = self._joined(binding, place, arg, known[arg.name]) or binding
                found = self._scaled(binding, call)
                if found is not None:
                    known[binding.var.name] = found
            body.append(binding)
        return replace(self.function, body=tuple(body))

    def _scaled(self, binding: Binding, call: KernelCall) -> Scaled | None:
        """What a binding makes of constants alone, if it is integers of a byte times a scale."""
        kernel = call.kernel
        if len(kernel.computes) != 1 or not all(a.name in self.constants for a in call.args):
            return None
        (c,) = kernel.computes
        if c.reduce or not c.is_plain or kernel.dtype(c.out) != "float32":
            return None
        split = _split(c.expr, kernel)
        if split is None:
            return None
        whole, scale = split
        args = dict(zip(kernel.inputs, call.args, strict=True))
        array = _evaluated(whole, kernel, c, {n: self.constants[a.name] for n, a in args.items()})
        low, high = integer_limits("int8")
        if not array.size or array.min() < low or array.max() > high:
            return None
        vector = args[scale.tensor] if isinstance(scale, Read) else None
        return Scaled(array.astype(np.int8), c.axes, scale, vector, binding.origin)

    def _joined(self, binding: Binding, place: int, arg: Var, w: Scaled) -> Binding | None:
        call = binding.kernel_call
        kernel = _moved(call.kernel, call.kernel.inputs[place], w)
        if kernel is None:
            return None
        name = f"{arg.name}.integers"
        if name not in self.constants:
            name = fresh(name, self.taken)
            self.taken.add(name)
            self.constants[name] = Constant(w.integers)
        weights = Var(name, Tensor(tuple(w.integers.shape), "int8"))
        args = (*call.args[:place], weights, *call.args[place + 1 :])
        args = args if w.vector is None else (*args, w.vector)
        new = replace(call, kernel=kernel, args=args)
        return replace(binding, expr=new, origin=binding.origin | w.origin)


def _split(expr: Expr, kernel: Kernel) -> tuple[Expr, Read | Const] | None:
    """Whole numbers and the scale that they are multiplied by."""
    match _unwrapped(expr):
        case Apply("mul", (x, y)):
            whole, scale = _whole(x, kernel), _unwrapped(y)
            if whole is not None and isinstance(scale, (Read, Const)):
                plain = not isinstance(scale, Read) or kernel.dtype(scale.tensor) == "float32"
                return (whole, scale) if plain else None
    return None


def _unwrapped(expr: Expr) -> Expr:
    """Without conversions to float32."""
    while isinstance(expr, Apply) and expr.op == "cast_float32":
        (expr,) = expr.args
    return expr


def _whole(expr: Expr, kernel: Kernel) -> Expr | None:
    """What is converted to float32, if all that it reads is whole."""
    inner = _unwrapped(expr)
    loads = list(reads(inner))
    whole = loads and all(is_integer(kernel.dtype(r.tensor)) for r in loads)
    arithmetic = isinstance(inner, Read) or (
        isinstance(inner, Apply) and inner.op in ("cast_int32", "sub")
    )
    return inner if whole and arithmetic else None


def _evaluated(
    whole: Expr, kernel: Kernel, c: Compute, values: Mapping[str, Constant]
) -> np.ndarray:
    """The whole numbers in int32."""
    used = tuple(n for n in kernel.inputs if any(r.tensor == n for r in reads(whole)))
    out = TensorSpec(c.out, kernel.shape(c.out), "int32")
    made = Kernel(
        "integers",
        (*(kernel.spec(n) for n in used), out),
        (replace(c, expr=Apply("cast_int32", (whole,))),),
        used,
        (c.out,),
    )
    return np.asarray(evaluate_kernel(made, [values[n].array for n in used], {}))


def _moved(kernel: Kernel, tensor: str, w: Scaled) -> Kernel | None:
    """The kernel with a tensor of integers in place of the scaled one."""
    users = [c for c in kernel.computes if any(r.tensor == tensor for r in reads(c.expr))]
    if len(users) != 1 or len(writers(kernel, users[0].out)) != 1:
        return None
    (c,) = users
    pair = product_of(c.expr) if c.combiner == "sum" and kernel.dtype(c.out) == "float32" else None
    mine = [r for r in pair or () if r.tensor == tensor]
    if pair is None or len(mine) != 1 or mine[0].fill is not None or tensor in kernel.constants:
        return None
    index = [i for i in mine[0].index if isinstance(i, Affine)]
    values = {a.name: i for a, i in zip(w.axes, index, strict=True)}
    scale = substitute(w.scale, values)
    summed = {a.name for a in c.reduce}
    entries = scale.index if isinstance(scale, Read) else ()
    if any(isinstance(i, Affine) and i.variables & summed for i in entries):
        return None
    return _with_scale(kernel, c, tensor, scale, w)


def _with_scale(kernel: Kernel, c: Compute, tensor: str, scale: Expr, w: Scaled) -> Kernel:
    taken = {t.name for t in kernel.tensors}
    total = fresh(f"{c.out}_sum", taken)
    inputs, constants = kernel.inputs, kernel.constants | {tensor}
    specs = tuple(replace(t, dtype="int8") if t.name == tensor else t for t in kernel.tensors)
    specs = (*specs, TensorSpec(total, kernel.shape(c.out), "float32"))
    if isinstance(scale, Read) and w.vector is not None:
        name = fresh("scale", {*taken, total})
        specs = (*specs, TensorSpec(name, w.vector.tensor.dims, "float32"))
        inputs, constants = (*inputs, name), constants | {name}
        scale = replace(scale, tensor=name)

    def load(read: Read) -> Expr:
        return Apply("cast_float32", (read,)) if read.tensor == tensor else read

    summed = replace(c, out=total, expr=rewrite(c.expr, load), origin=c.origin | w.origin)
    behind = Compute(
        c.out,
        c.axes,
        Apply("mul", (Read(total, c.target), scale)),
        store=c.store,
        origin=c.origin | w.origin,
    )
    place = kernel.computes.index(c)
    computes = (*kernel.computes[:place], summed, behind, *kernel.computes[place + 1 :])
    return replace(kernel, tensors=specs, computes=computes, inputs=inputs, constants=constants)
