"""Weights that are small integers times a scale, kept quantized: the scale leaves the sum."""

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
from explorer.ir.kernels.contraction import product_of
from explorer.ir.kernels.normal import writers
from explorer.ir.program import Binding, Constant, Function, Program, fresh
from explorer.ir.types import Tensor
from explorer.ops.interpreter.evaluate import evaluate, evaluate_kernel
from explorer.passes.registry import compiler_pass
from explorer.transforms.simplify.fold_constants import folding_budget
from explorer.transforms.simplify.redundancy import record_dropped

SMALL = frozenset(
    {"int4", "uint4", "int8", "uint8", "int16", "uint16"}
)  # types of quantized weights


@compiler_pass(
    "integer-weights",
    paper="Jacob et al. 2018, Quantization and training of neural networks for efficient "
    "integer-arithmetic-only inference, section 2.2",
)
def keep_integer_weights(program: Program) -> Program:
    """Keep quantized weights as bytes and move their scale behind the contraction.

    After: a contraction with such weights reads 8-bit integers, a quarter of the bytes.
    `b[k, j] = (w[k, j] - zero) * s[j]; y[i, j] = sum over k: a[i, k] * b[k, j]` becomes `y[i, j] =
    (sum over k: a[i, k] * w'[k, j]) * s[j]`, also without a scale. No operator is matched by name.

    Other integer weights, such as those whose scale varies along the reduction, become float32
    constants if the folding budget allows: converting them in each run takes longer.
    """
    constants = dict(program.constants)
    functions = tuple(_Weights(f, constants).rewrite() for f in program.functions)
    left = folding_budget(program.constants)
    functions = tuple(_widen_weights(f, program, constants, left) for f in functions)
    if len(constants) == len(program.constants):
        return program
    after = replace(program, functions=functions, constants=constants)
    return record_dropped(program, after, "computed when the model was compiled")


@dataclass(frozen=True, slots=True)
class Scaled:
    """A value that is `integers * scale`, the scale indexed by `axes`; scale None: not scaled."""

    integers: np.ndarray
    axes: tuple[Axis, ...]
    scale: Read | Const | None
    vector: Var | None  # the tensor of scales
    origin: frozenset[str]


class _Weights:
    """The rewrite of one function's quantized weights."""

    def __init__(self, function: Function, constants: dict[str, Constant]) -> None:
        """Create the rewrite of a function; new constants are added to `constants`."""
        self.function, self.constants = function, constants
        self.taken = {*constants, *(v.name for b in function.body for v in b.vars)}
        self.integers: dict[str, str] = {}  # the constant that replaces a weight

    def rewrite(self) -> Function:
        """Move scales behind the sums; unread weights stay for dead code removal."""
        scaled_values: dict[str, Scaled] = {}
        body: list[Binding] = []
        for binding in self.function.body:
            call = binding.expr
            if isinstance(call, KernelCall):
                for place, arg in enumerate(call.args):
                    if arg.name in scaled_values:
                        binding = (
                            self._rewrite_reader(binding, place, arg, scaled_values[arg.name])
                            or binding
                        )
                scaled = self._match_scaled(binding, call) or self._match_rescaled(
                    binding, call, scaled_values
                )
                if scaled is not None:
                    scaled_values[binding.var.name] = scaled
            body.append(binding)
        return replace(self.function, body=tuple(body))

    def _match_scaled(self, binding: Binding, call: KernelCall) -> Scaled | None:
        """Return the 8-bit integers and the scale that a binding computes from constants.

        Returns None if its result is no such product.
        """
        kernel = call.kernel
        if len(kernel.computes) != 1 or not all(a.name in self.constants for a in call.args):
            return None
        (c,) = kernel.computes
        if c.reduce or not c.is_plain or kernel.dtype(c.out) != "float32":
            return None
        split = _split_scale(c.expr, kernel)
        if split is None:
            return None
        integers, scale = split
        args = dict(zip(kernel.inputs, call.args, strict=True))
        array = _evaluate_integers(
            integers, kernel, c, {n: self.constants[a.name] for n, a in args.items()}
        )
        low, high = integer_limits("int8")
        if not array.size or array.min() < low or array.max() > high:
            return None
        vector = args[scale.tensor] if isinstance(scale, Read) else None
        return Scaled(array.astype(np.int8), c.axes, scale, vector, binding.origin)

    def _match_rescaled(
        self, binding: Binding, call: KernelCall, scaled_values: Mapping[str, Scaled]
    ) -> Scaled | None:
        """Return a binding's result as a scale times unscaled integers, if it is that."""
        args = dict(zip(call.kernel.inputs, call.args, strict=True))
        others = [a.name for a in args.values() if a.name not in self.constants]
        plain = scaled_values.get(others[0]) if len(others) == 1 else None
        if plain is None or plain.scale is not None or len(call.kernel.computes) != 1:
            return None
        (c,) = call.kernel.computes
        pair = c.expr.args if isinstance(c.expr, Apply) and c.expr.op == "mul" else ()
        if c.reduce or not c.is_plain or call.kernel.dtype(c.out) != "float32" or len(pair) != 2:
            return None
        place = tuple(var(a.name) for a in c.axes)
        for integers, scale in (pair, pair[::-1]):
            mine = isinstance(integers, Read) and args[integers.tensor].name == others[0]
            if (
                mine
                and isinstance(integers, Read)
                and integers.index == place
                and _is_scale(scale, call)
            ):
                assert isinstance(scale, Read | Const)
                vector = args[scale.tensor] if isinstance(scale, Read) else None
                origin = plain.origin | binding.origin
                return Scaled(plain.integers, c.axes, scale, vector, origin)
        return None

    def _rewrite_reader(self, binding: Binding, place: int, arg: Var, w: Scaled) -> Binding | None:
        call = binding.kernel_call
        kernel = _move_scale(call.kernel, call.kernel.inputs[place], w)
        if kernel is None:
            return None
        if arg.name not in self.integers:
            name = self.integers[arg.name] = fresh(f"{arg.name}.integers", self.taken)
            self.taken.add(name)
            self.constants[name] = Constant(w.integers)
        weights = Var(self.integers[arg.name], Tensor(tuple(w.integers.shape), "int8"))
        args = (*call.args[:place], weights, *call.args[place + 1 :])
        args = args if w.vector is None else (*args, w.vector)
        new = replace(call, kernel=kernel, args=args)
        return replace(binding, expr=new, origin=binding.origin | w.origin)


def _split_scale(expr: Expr, kernel: Kernel) -> tuple[Expr, Read | Const | None] | None:
    """Split an expression into an integer expression and the scale that it is multiplied by."""
    match _strip_conversions(expr):
        case Apply("mul", (x, y)):
            integers, scale = _integer_operand(x, kernel), _strip_conversions(y)
            if integers is not None and isinstance(scale, (Read, Const)):
                plain = not isinstance(scale, Read) or kernel.dtype(scale.tensor) == "float32"
                return (integers, scale) if plain else None
            return None
    integers = _integer_operand(expr, kernel)
    return None if integers is None else (integers, None)


def _is_scale(expr: Expr, call: KernelCall) -> bool:
    """Return True if this is a constant or a read of a float32 tensor."""
    if isinstance(expr, Const):
        return True
    return isinstance(expr, Read) and call.kernel.dtype(expr.tensor) == "float32"


def _strip_conversions(expr: Expr) -> Expr:
    """Strip conversions to float32."""
    while isinstance(expr, Apply) and expr.op == "cast_float32":
        (expr,) = expr.args
    return expr


def _integer_operand(expr: Expr, kernel: Kernel) -> Expr | None:
    """Return the operand of a conversion to float32, if it reads integers only."""
    inner = _strip_conversions(expr)
    loads = list(reads(inner))
    reads_integers = loads and all(is_integer(kernel.dtype(r.tensor)) for r in loads)
    arithmetic = isinstance(inner, Read) or (
        isinstance(inner, Apply) and inner.op in ("cast_int32", "sub")
    )
    return inner if reads_integers and arithmetic else None


def _evaluate_integers(
    integers: Expr, kernel: Kernel, c: Compute, values: Mapping[str, Constant]
) -> np.ndarray:
    """Evaluate an integer expression in int32."""
    used = tuple(n for n in kernel.inputs if any(r.tensor == n for r in reads(integers)))
    out = TensorSpec(c.out, kernel.shape(c.out), "int32")
    integer_kernel = Kernel(
        "integers",
        (*(kernel.spec(n) for n in used), out),
        (replace(c, expr=Apply("cast_int32", (integers,))),),
        used,
        (c.out,),
    )
    return np.asarray(evaluate_kernel(integer_kernel, [values[n].array for n in used], {}))


def _move_scale(kernel: Kernel, tensor: str, w: Scaled) -> Kernel | None:
    """Replace the scaled tensor of a kernel by its integers."""
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
    new = replace(c, expr=_convert_reads(c.expr, tensor), origin=c.origin | w.origin)
    computes = tuple(new if x is c else x for x in kernel.computes)
    constants = kernel.constants | {tensor}
    return replace(kernel, tensors=specs, computes=computes, constants=constants)


def _convert_reads(expr: Expr, tensor: str) -> Expr:
    """Convert reads of a tensor to float32."""

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

    summed = replace(c, out=total, expr=_convert_reads(c.expr, tensor), origin=c.origin | w.origin)
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


# Integer weights that stay unscaled.


def _widen_weights(
    function: Function, program: Program, constants: dict[str, Constant], left: int
) -> Function:
    """Fold weights made of integers into float32 constants, within `left` bytes."""
    widening: dict[str, Binding] = {}  # element-wise conversions of constants only
    for binding in function.body:
        if _is_widening(binding, constants, widening):
            widening[binding.var.name] = binding
    unchanged = [b for b in function.body if b.vars[0].name not in widening]
    outputs = {v.name for v in function.outputs}
    wanted = dict.fromkeys(v.name for b in unchanged for v in b.reads if v.name in widening)
    gone: set[str] = set()
    for name in wanted:
        size = _bytes(widening[name].var)
        if name in outputs or size > left:
            continue
        constants[name] = Constant(_evaluate(name, widening, program))
        gone.add(name)
        left -= size
    if not gone:
        return function
    body = (b for b in function.body if b.vars[0].name not in gone)
    return replace(function, body=tuple(_mark_constants(b, gone) for b in body))


def _mark_constants(binding: Binding, constants: Container[str]) -> Binding:
    """Mark these constants in the binding's kernel."""
    call = binding.expr
    if not isinstance(call, KernelCall) or not any(a.name in constants for a in call.args):
        return binding
    pairs = zip(call.kernel.inputs, call.args, strict=True)
    marked = call.kernel.constants | {n for n, a in pairs if a.name in constants}
    return replace(binding, expr=replace(call, kernel=replace(call.kernel, constants=marked)))


def _is_widening(
    binding: Binding, constants: Mapping[str, Constant], widening: Container[str]
) -> bool:
    """Return True if a binding converts each element of a constant of small integers to float32."""
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
    if not all(a.name in constants or a.name in widening for a in call.args):
        return False
    elements = prod(d for d in binding.var.tensor.dims if isinstance(d, int))
    return any(
        a.name in widening or (a.tensor.element in SMALL and constants[a.name].size >= elements)
        for a in call.args
    )


def _bytes(value: Var) -> int:
    """Return the float32 size of a tensor of static shape, -1 for other values."""
    dims = value.type.dims if isinstance(value.type, Tensor) and value.type.is_known else (None,)
    sizes = [d for d in dims if isinstance(d, int)]
    return prod(sizes) * ITEM_BYTES["float32"] if len(sizes) == len(dims) else -1


def _evaluate(name: str, widening: Mapping[str, Binding], program: Program) -> np.ndarray:
    body: list[Binding] = []
    wanted = [name]
    while wanted:
        binding = widening.get(wanted.pop())
        if binding is not None:
            body.insert(0, binding)
            wanted += [v.name for v in binding.reads]
    result = widening[name].var
    alone = Function("constant", (), tuple(dict.fromkeys(body)), (result,), (name,))
    program = replace(program, functions=(alone,))
    return np.asarray(evaluate(program, {})[name])
