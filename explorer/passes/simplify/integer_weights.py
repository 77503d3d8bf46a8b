"""Weights that are small integers times a scale stay so in memory: the scale leaves the sum."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from explorer.ir.affine import Affine, var
from explorer.ir.calls import KernelCall, Var
from explorer.ir.dtypes import ITEM_BYTES, integer_limits, is_integer
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
    variables,
)
from explorer.ir.kernels.normal import writers
from explorer.ir.patterns.contraction import product_of
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor
from explorer.ops.reference.evaluate import evaluate, evaluate_kernel
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.simplify.dropped_origins import account
from explorer.passes.simplify.fold_constants import room_for

SMALL = frozenset({"int4", "uint4", "int8", "uint8", "int16", "uint16"})  # that a weight is kept in


@compiler_pass(
    "integer-weights",
    paper="Jacob et al. 2018, Quantization and training of neural networks for efficient "
    "integer-arithmetic-only inference, section 2.2",
)
def keep_integer_weights(program: Program) -> Program:
    """After: a sum of products with such weights reads integers of a byte, a quarter of the bytes.

    `b[k, j] = (w[k, j] - zero) * s[j]; y[i, j] = sum over k: a[i, k] * b[k, j]` becomes `y[i, j] =
    (sum over k: a[i, k] * w'[k, j]) * s[j]`, also without a scale. No operator is known by name.
    Other weights of integers, such as those whose scale changes along what is summed, are float32
    constants where there is room for them: made of integers in each run, they take longer.
    """
    constants = dict(program.constants)
    functions = tuple(_Weights(f, constants).function_after() for f in program.functions)
    left = room_for(program.constants)
    functions = tuple(_widened(f, program, constants, left) for f in functions)
    if len(constants) == len(program.constants):
        return program
    after = replace(program, functions=functions, constants=constants)
    return account(program, after, "computed when the model was compiled")


@dataclass(frozen=True, slots=True)
class Scaled:
    """A value that is `integers * scale`, the scale at these axes of it; None: not scaled."""

    integers: np.ndarray
    axes: tuple[Axis, ...]
    scale: Read | Const | None
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
                found = self._scaled(binding, call) or self._rescaled(binding, call, known)
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

    def _rescaled(
        self, binding: Binding, call: KernelCall, known: Mapping[str, Scaled]
    ) -> Scaled | None:
        """What a binding makes of integers without a scale, if it is a scale times them."""
        args = dict(zip(call.kernel.inputs, call.args, strict=True))
        others = [a.name for a in args.values() if a.name not in self.constants]
        plain = known.get(others[0]) if len(others) == 1 else None
        if plain is None or plain.scale is not None or len(call.kernel.computes) != 1:
            return None
        (c,) = call.kernel.computes
        pair = c.expr.args if isinstance(c.expr, Apply) and c.expr.op == "mul" else ()
        if c.reduce or not c.is_plain or call.kernel.dtype(c.out) != "float32" or len(pair) != 2:
            return None
        place = tuple(var(a.name) for a in c.axes)
        for whole, scale in (pair, pair[::-1]):
            mine = isinstance(whole, Read) and args[whole.tensor].name == others[0]
            if mine and isinstance(whole, Read) and whole.index == place and _is_scale(scale, call):
                assert isinstance(scale, Read | Const)
                vector = args[scale.tensor] if isinstance(scale, Read) else None
                origin = plain.origin | binding.origin
                return Scaled(plain.integers, c.axes, scale, vector, origin)
        return None

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


def _split(expr: Expr, kernel: Kernel) -> tuple[Expr, Read | Const | None] | None:
    """Whole numbers and the scale that they are multiplied by."""
    match _unwrapped(expr):
        case Apply("mul", (x, y)):
            whole, scale = _whole(x, kernel), _unwrapped(y)
            if whole is not None and isinstance(scale, (Read, Const)):
                plain = not isinstance(scale, Read) or kernel.dtype(scale.tensor) == "float32"
                return (whole, scale) if plain else None
            return None
    whole = _whole(expr, kernel)
    return None if whole is None else (whole, None)


def _is_scale(expr: Expr, call: KernelCall) -> bool:
    """Whether this is a float32 that stands, or is read from a tensor at places that axes tell."""
    if isinstance(expr, Const):
        return True
    return isinstance(expr, Read) and call.kernel.dtype(expr.tensor) == "float32"


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
    if w.scale is None:
        return _with_integers(kernel, c, tensor, w)
    values = {a.name: i for a, i in zip(w.axes, index, strict=True)}
    scale = substitute(w.scale, values)
    if variables(scale) & {a.name for a in c.reduce}:
        return None
    return _with_scale(kernel, c, tensor, scale, w)


def _with_integers(kernel: Kernel, c: Compute, tensor: str, w: Scaled) -> Kernel:
    specs = tuple(replace(t, dtype="int8") if t.name == tensor else t for t in kernel.tensors)
    new = replace(c, expr=_converting(c.expr, tensor), origin=c.origin | w.origin)
    computes = tuple(new if x is c else x for x in kernel.computes)
    constants = kernel.constants | {tensor}
    return replace(kernel, tensors=specs, computes=computes, constants=constants)


def _converting(expr: Expr, tensor: str) -> Expr:
    """The expression that converts what it reads from a tensor to float32."""

    def load(read: Read) -> Expr:
        return Apply("cast_float32", (read,)) if read.tensor == tensor else read

    return rewrite(expr, load)


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

    summed = replace(c, out=total, expr=_converting(c.expr, tensor), origin=c.origin | w.origin)
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


# What is left of weights of integers.


def _widened(
    function: Function, program: Program, constants: dict[str, Constant], left: int
) -> Function:
    """The function in which weights that are made of integers are constants, in this many bytes."""
    made: dict[str, Binding] = {}  # of constants alone, element by element
    for binding in function.body:
        if _widens(binding, constants, made):
            made[binding.var.name] = binding
    kept = [b for b in function.body if b.vars[0].name not in made]
    outputs = {v.name for v in function.outputs}
    wanted = dict.fromkeys(v.name for b in kept for v in b.reads if v.name in made)
    gone: set[str] = set()
    for name in wanted:
        size = _bytes(made[name].var)
        if name in outputs or size > left:
            continue
        constants[name] = Constant(_value(name, made, program))
        gone.add(name)
        left -= size
    if not gone:
        return function
    body = (b for b in function.body if b.vars[0].name not in gone)
    return replace(function, body=tuple(_knowing(b, gone) for b in body))


def _knowing(binding: Binding, constants: Container[str]) -> Binding:
    """A binding whose kernel knows which of its inputs are these constants."""
    call = binding.expr
    if not isinstance(call, KernelCall) or not any(a.name in constants for a in call.args):
        return binding
    pairs = zip(call.kernel.inputs, call.args, strict=True)
    known = call.kernel.constants | {n for n, a in pairs if a.name in constants}
    return replace(binding, expr=replace(call, kernel=replace(call.kernel, constants=known)))


def _widens(binding: Binding, constants: Mapping[str, Constant], made: Container[str]) -> bool:
    """Whether a binding makes a float32 for each element of a constant of small integers."""
    call = binding.expr
    if (
        not isinstance(call, KernelCall)
        or len(call.kernel.computes) != 1
        or _bytes(binding.var) < 0
    ):
        return False
    (c,) = call.kernel.computes
    if c.reduce or not c.is_plain or call.kernel.dtype(c.out) != "float32":
        return False
    if not all(a.name in constants or a.name in made for a in call.args):
        return False
    elements = prod(d for d in binding.var.tensor.dims if isinstance(d, int))
    return any(
        a.name in made or (a.tensor.element in SMALL and constants[a.name].array.size >= elements)
        for a in call.args
    )


def _bytes(value: Var) -> int:
    """The size of a tensor of known dims, -1 of any other value."""
    dims = value.type.dims if isinstance(value.type, Tensor) and value.type.is_known else (None,)
    sizes = [d for d in dims if isinstance(d, int)]
    return prod(sizes) * ITEM_BYTES["float32"] if len(sizes) == len(dims) else -1


def _value(name: str, made: Mapping[str, Binding], program: Program) -> np.ndarray:
    body: list[Binding] = []
    wanted = [name]
    while wanted:
        binding = made.get(wanted.pop())
        if binding is not None:
            body.insert(0, binding)
            wanted += [v.name for v in binding.reads]
    result = made[name].var
    alone = Function("constant", (), tuple(dict.fromkeys(body)), (result,), (name,))
    program = replace(program, functions=(alone,))
    return np.asarray(evaluate(program, {})[name])
