"""Products of a program with constant float32 matrices, and their low-bit forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from explorer.ir.calls import OpCall, Var
from explorer.ir.program import Binding, Constant, Function, Program, fresh
from explorer.ir.types import Tensor
from explorer.ops.low_bit_products import BIAS
from explorer.quantization.float8_matrix import Float8Matrix
from explorer.quantization.low_bit_matrix import LowBitMatrix, RoundedMatrix


@dataclass(frozen=True, slots=True)
class ConstantProduct:
    """A binding that is `x @ W`, or `x @ W.T` if `by_rows`, of a constant W, plus a constant bias.

    `origin` has the operators of the product and of a transpose of W.
    """

    function: str
    binding: Binding
    x: Var
    weight: str
    by_rows: bool
    origin: frozenset[str]
    bias: str | None = None

    @property
    def operator(self) -> str:
        """The source operator of the product."""
        return min(self.binding.origin, default=self.binding.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a layer is chosen by: its weight, its operator, its result."""
        return (self.weight, *sorted(self.binding.origin), self.binding.name)

    def matrix(self, constants: Mapping[str, Constant]) -> np.ndarray:
        """Return the weight as [outputs, inputs]."""
        array = constants[self.weight].array
        return array if self.by_rows else array.T


def constant_products(program: Program) -> tuple[ConstantProduct, ...]:
    """Return MatMul and Gemm with constant weights, of every function, in order.

    Gemm with transA, alpha or beta, or with a bias that is no constant vector, is none.
    """
    return tuple(p for f in program.functions for p in _of_function(f, program.constants))


def _of_function(f: Function, constants: Mapping[str, Constant]) -> Iterator[ConstantProduct]:
    turned: dict[str, tuple[str, frozenset[str]]] = {}  # transposed weights
    for b in f.body:
        match b.expr:
            case OpCall("Transpose", (Var() as w,)) as call if _is_matrix(w, constants):
                if call.attr("perm", (1, 0)) == (1, 0):
                    turned[b.name] = (w.name, b.origin)
            case OpCall("MatMul", (Var() as x, Var() as w)) if x.name not in constants:
                if _is_matrix(w, constants):
                    yield ConstantProduct(f.name, b, x, w.name, False, b.origin)
                elif w.name in turned:
                    weight, origin = turned[w.name]
                    yield ConstantProduct(f.name, b, x, weight, True, b.origin | origin)
            case OpCall("Gemm", (Var() as x, Var() as w, *others)) as call:
                by_rows, bias = bool(call.attr("transB", 0)), next(iter(others), None)
                if x.name in constants or not _is_matrix(w, constants) or _is_scaled(call):
                    continue
                outputs = constants[w.name].type.dims[0 if by_rows else 1]
                if bias is None:
                    yield ConstantProduct(f.name, b, x, w.name, by_rows, b.origin)
                elif bias.name in constants and constants[bias.name].type.dims == (outputs,):
                    yield ConstantProduct(f.name, b, x, w.name, by_rows, b.origin, bias.name)


def _is_matrix(w: Var, constants: Mapping[str, Constant]) -> bool:
    if w.name not in constants:
        return False
    array = constants[w.name].array
    return array.dtype == np.float32 and array.ndim == 2 and array.size > 0


def _is_scaled(call: OpCall) -> bool:
    factors = (call.attr("alpha", 1.0), call.attr("beta", 1.0))
    return bool(call.attr("transA", 0)) or factors != (1.0, 1.0)


PRODUCT = ".product"  # the name of a product before its bias ends so
Matrices = Mapping[tuple[str, bool], RoundedMatrix]  # by weight, and if it is read by rows


def with_low_bits(
    program: Program, products: tuple[ConstantProduct, ...], matrices: Matrices
) -> Program:
    """Replace products whose weight has a low-bit matrix.

    After: `y = MatMulNBits(x, w.codes, w.scales)`, or MatMulBnb4 for nf4. Float8 is dequantized:
    `y = MatMul(x, DequantizeLinear(w.codes, w.scales))`. Nothing that is read no more is there.
    """
    taken = {*program.constants, *(v.name for _, b in program.bindings() for v in b.vars)}
    constants = dict(program.constants)
    arguments: dict[tuple[str, bool], tuple[Var, ...]] = {}
    for key, matrix in matrices.items():
        names = {part: fresh(f"{key[0]}.{part}", taken) for part in matrix.arrays}
        taken.update(names.values())
        constants |= {names[part]: Constant(array) for part, array in matrix.arrays.items()}
        arguments[key] = tuple(Var(n, constants[n].type) for n in names.values())
    new: dict[tuple[str, str], tuple[Binding, ...]] = {}
    for p in products:
        if (key := (p.weight, p.by_rows)) in matrices:
            bias = None if p.bias is None else Var(p.bias, constants[p.bias].type)
            product = _product(p, arguments[key], bias, matrices[key], taken)
            new[p.function, p.binding.name] = tuple(product)
    functions = tuple(
        replace(f, body=tuple(n for b in f.body for n in new.get((f.name, b.name), (b,))))
        for f in program.functions
    )
    weights = frozenset(w for w, _ in matrices)
    return _without_unread(replace(program, functions=functions, constants=constants), weights)


def _product(
    p: ConstantProduct,
    parts: tuple[Var, ...],
    bias: Var | None,
    matrix: RoundedMatrix,
    taken: set[str],
) -> Iterator[Binding]:
    """Yield a product with a rounded matrix, and what it needs before and after it.

    Float8 is dequantized before a plain product. Where that has no bias, it is added.
    """
    args: tuple[Var | None, ...] = (p.x, *parts)
    result = p.binding.var
    if bias is not None and not isinstance(matrix, LowBitMatrix):
        result = Var(fresh(f"{result.name}{PRODUCT}", taken), result.type)
        taken.add(result.name)
    elif bias is not None:
        args = (*args, *[None] * (BIAS - len(args)), bias)
    if isinstance(matrix, Float8Matrix):
        weights = Var(fresh(f"{p.weight}.decoded", taken), Tensor(matrix.codes.shape, "float32"))
        taken.add(weights.name)
        decoding = OpCall("DequantizeLinear", parts, (("axis", 1),))
        yield replace(p.binding, vars=(weights,), expr=decoding, origin=p.origin)
        call = OpCall("MatMul", (p.x, weights))
    else:
        call = OpCall(matrix.operator, args, matrix.attrs)
    yield replace(p.binding, vars=(result,), expr=call, origin=p.origin)
    if result != p.binding.var:
        yield replace(p.binding, expr=OpCall("Add", (result, bias)), origin=p.origin)


def _without_unread(program: Program, weights: frozenset[str]) -> Program:
    """Drop the weights that are read no more, and their transposes."""
    functions = tuple(_without_transposes(f, weights) for f in program.functions)
    read = {v.name for f in functions for b in f.body for v in b.reads}
    read |= {v.name for f in functions for v in f.outputs}
    constants = {n: c for n, c in program.constants.items() if n in read or n not in weights}
    return replace(program, functions=functions, constants=constants)


def _without_transposes(f: Function, weights: frozenset[str]) -> Function:
    read = {v.name for b in f.body for v in b.reads} | {v.name for v in f.outputs}

    def is_dead(b: Binding) -> bool:
        """Return True for a transposed weight that nothing reads."""
        match b.expr:
            case OpCall("Transpose", (Var() as w,)):
                return w.name in weights and b.name not in read
        return False

    return replace(f, body=tuple(b for b in f.body if not is_dead(b)))
