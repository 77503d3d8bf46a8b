"""Bounds of 64-bit integers, which WGSL lacks: they are computed in 32 bits where they fit.

Every value of a 64-bit dtype has an interval: of an input `-2**30 .. 2**30`, which is checked when
a program runs; of a constant that of its elements; of an index that of its axes; of a function what
the intervals of its arguments allow. A kernel that computes a value beyond `LEAST .. MOST` is
refused. Constants beyond may be compared, and may be an argument of `min` and `max`, also as one
of two values of `where`: there the nearest integer of 32 bits decides alike. It is taken not to be
the result, as in an index of the largest element: `min of where(is largest, index, 2**62)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, floor, inf, isnan, prod
from types import MappingProxyType

import numpy as np

from explorer.codegen.wgsl.types import WIDE_INTEGERS
from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, ShapeOf, View
from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import Sizes, evaluate_dim
from explorer.ir.dtypes import DType, integer_limits, is_float, is_integer
from explorer.ir.kernel import Apply, Compute, Const, Expr, IndexValue, Kernel, Read, result_dtype
from explorer.ir.program import Program
from explorer.ir.scalar_functions import returns_bool

LEAST, MOST = -(2**31) + 1, 2**31 - 2  # of the values of a 64-bit dtype
MOST_INPUT = 2**30  # of an element of an input, so that a sum of two still fits
Bounds = tuple[float, float]  # integers, or infinities
ANYTHING: Bounds = (-inf, inf)
BIT: Bounds = (0, 1)
MOST_POWER = 64  # of a reduction by products: more leave 32 bits anyway


@dataclass(slots=True)
class _Analysis:
    """The bounds of a kernel's tensors; `problem` is the first value that may not fit."""

    kernel: Kernel
    sizes: Sizes
    bounds: dict[str, Bounds]
    extents: dict[str, int] = field(default_factory=dict)
    problem: str = ""

    def compute(self, c: Compute) -> None:
        """Add the bounds of what a compute writes."""
        axes = (*c.axes, *c.reduce)
        self.extents = {a.name: evaluate_dim(a.extent, self.sizes) for a in axes}
        dtype = self.kernel.dtype(c.out)
        if any(n == 0 for n in self.extents.values()):
            own: Bounds = (0, 0)
        elif c.reduce:
            own = self.reduced(c, dtype)
        else:
            own = self.of(c.expr)
        before = self.bounds.get(c.out)
        self.bounds[c.out] = own if before is None else union(before, own)

    def reduced(self, c: Compute, dtype: DType) -> Bounds:
        """Return the bounds of a reduction."""
        combiner = COMBINERS[c.combiner or "sum"]
        expr = c.expr
        if isinstance(expr, Read) and expr.fill == combiner.identity(dtype):
            each = union(self.tensor(expr), BIT if combiner.name == "prod" else self.tensor(expr))
        else:
            each = self.of(expr, combiner.picks)
        count = prod(self.extents[a.name] for a in c.reduce)
        if combiner.name == "sum":
            both = [n for b in each for n in (_times(b, count), 0.0)]
            return self.fitting(dtype, (min(both), max(both)), "a sum")
        if combiner.name == "prod":
            size = max(1.0, *map(abs, each)) if min(each) > -inf and max(each) < inf else inf
            most = _power(size, count)
            return self.fitting(dtype, (-most if each[0] < 0 else 0, most), "a product")
        return each

    def of(self, expr: Expr, is_picked: bool = False) -> Bounds:
        """Return the bounds of an expression; `is_picked`: `min` or `max` may pass it over."""
        match expr:
            case Const(value):
                is_plain = isinstance(value, (bool, int, float))
                number = value if is_plain else evaluate_dim(value, self.sizes)
                return ANYTHING if isnan(number) else (number, number)
            case IndexValue(index):
                return self.fitting("int64", self.affine(index), "an index")
            case Read(fill=fill):
                own = self.tensor(expr)
                return own if fill is None else union(own, (fill, fill))
            case Apply(op, args):
                picks = op in ("min", "max") or returns_bool(op) or (is_picked and op == "where")
                bounds = [self.of(a, picks) for a in args]
                dtype = result_dtype(expr, self.kernel)
                if returns_bool(op):
                    return BIT
                if not picks:
                    self.check_constants(args, bounds)
                elif op == "where":
                    bounds = _without_far_constants(args, bounds)
                own = _bounds_of(op, dtype, bounds)
                return self.fitting(dtype, own, f"the result of {op}")

    def check_constants(self, args: tuple[Expr, ...], bounds: list[Bounds]) -> None:
        """Check that no constant beyond 32 bits is used in arithmetic."""
        for a, own in zip(args, bounds):
            if isinstance(a, Const):
                self.fitting(a.dtype, own, "a constant")

    def tensor(self, read: Read) -> Bounds:
        """Return the bounds of a tensor that is read, once its indices are checked."""
        for index in read.index:
            if not isinstance(index, Affine):
                self.of(index)
        return self.bounds.get(read.tensor) or of_dtype(self.kernel.dtype(read.tensor))

    def affine(self, index: Affine) -> Bounds:
        """Return the bounds of an affine value of the axes."""
        low = high = evaluate_dim(index.const, self.sizes)
        for name, factor in index.terms:
            far = evaluate_dim(factor, self.sizes) * (self.extents.get(name, 1) - 1)
            low, high = low + min(0, far), high + max(0, far)
        return low, high

    def fitting(self, dtype: DType, bounds: Bounds, what: str) -> Bounds:
        """Return the bounds of values of a dtype; of 64 bits they are checked."""
        if not is_integer(dtype):
            return BIT if dtype == "bool" else bounds
        if dtype in WIDE_INTEGERS:
            low, high = (0, MOST) if dtype == "uint64" else (LEAST, MOST)
            if not (low <= bounds[0] and bounds[1] <= high):
                self.problem = self.problem or (
                    f"{what} of dtype {dtype} may be from {_text(bounds[0])} to "
                    f"{_text(bounds[1])}, and WGSL has integers of 32 bits only"
                )
            return max(low, bounds[0]), min(high, bounds[1])
        limits = integer_limits(dtype)
        inside = limits[0] <= bounds[0] and bounds[1] <= limits[1]
        return bounds if inside else limits


def _without_far_constants(args: tuple[Expr, ...], bounds: list[Bounds]) -> list[Bounds]:
    """Return the bounds of a `where` without a value that is a constant beyond 32 bits."""
    condition, *values = bounds
    near = [b for a, b in zip(args[1:], values) if not (isinstance(a, Const) and _is_far(a, b))]
    return [condition, *(near[:1] or values[:1]), *(near[-1:] or values[1:])]


def _is_far(c: Const, bounds: Bounds) -> bool:
    return c.dtype in WIDE_INTEGERS and not (bounds[0] >= LEAST and bounds[1] <= MOST)


def union(a: Bounds, b: Bounds) -> Bounds:
    """Return the bounds of values of either kind."""
    return min(a[0], b[0]), max(a[1], b[1])


def of_dtype(dtype: DType) -> Bounds:
    """Return the bounds of an element of which only the dtype is known."""
    if dtype in WIDE_INTEGERS:
        return (0, MOST_INPUT) if dtype == "uint64" else (-MOST_INPUT, MOST_INPUT)
    return integer_limits(dtype) if is_integer(dtype) or dtype == "bool" else ANYTHING


def of_array(array: np.ndarray) -> Bounds:
    """Return the bounds of an array's elements."""
    if array.dtype.kind not in "iub":
        return ANYTHING
    return (int(array.min()), int(array.max())) if array.size else (0, 0)


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _power(size: float, count: float) -> float:
    return 1.0 if size <= 1 else inf if count > MOST_POWER else size**count


def _bounds_of(op: str, dtype: DType, args: list[Bounds]) -> Bounds:
    """Return the bounds of a function of values with some bounds, before it is wrapped."""
    a, b = args[0], args[-1]
    match op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "mul":
            corners = [_times(x, y) for x in a for y in b]
            return min(corners), max(corners)
        case "neg":
            return -a[1], -a[0]
        case "abs":
            return (0 if a[0] <= 0 <= a[1] else min(map(abs, a))), max(map(abs, a))
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "where":
            return union(args[1], args[2])
        case "sign":
            return -1, 1
        case "mod" if is_integer(dtype):
            return min(0, b[0] + 1), max(0, b[1] - 1)
        case "floordiv" | "div" if is_integer(dtype):
            most = max(map(abs, a))
            return (-most if a[0] < 0 or b[0] < 0 else 0), most
        case "pow" if is_integer(dtype):
            most = _power(max(1.0, *map(abs, a)), max(0, b[1]))
            return (-most if a[0] < 0 else 0), most
        case "bitand" if min(a[0], b[0]) >= 0:
            return 0, min(a[1], b[1])
        case "bitand" | "bitor" | "bitxor" | "bitnot" | "shr" if is_integer(dtype):
            return of_bits(max(map(abs, (*a, *b))) + 1)
        case "shl" if a[0] >= 0 and 0 <= b[1] < MOST_POWER:
            return 0, a[1] * 2 ** int(b[1])
        case "floor" | "ceil" | "round":
            return (floor(a[0]) if a[0] > -inf else a[0]), (ceil(a[1]) if a[1] < inf else a[1])
        case "sigmoid":
            return 0, 1
        case "tanh" | "erf" | "sin" | "cos":
            return -1, 1
    if op.startswith("cast_"):
        return a if is_float(dtype) or inf in map(abs, a) else (floor(a[0]), ceil(a[1]))
    return ANYTHING


def of_bits(most: float) -> Bounds:
    """Return the bounds of two's complement integers with the bits of a number."""
    power = 2 ** int(most - 1).bit_length() if most < inf else inf
    return -power, power - 1


def _text(number: float) -> str:
    return f"{int(number):,}" if abs(number) < inf else f"{'-' if number < 0 else ''}infinity"


def kernel_bounds(
    kernel: Kernel, inputs: Mapping[str, Bounds], sizes: Sizes
) -> tuple[dict[str, Bounds], str]:
    """Return the bounds of a kernel's tensors, and why a value may not fit, else ""."""
    analysis = _Analysis(kernel, sizes, dict(inputs))
    for output, taken in kernel.updates:
        analysis.bounds[output] = analysis.bounds.get(taken) or of_dtype(kernel.dtype(taken))
    for c in kernel.computes:
        analysis.compute(c)
    return analysis.bounds, analysis.problem


def unbounded_integers(
    program: Program, sizes: Sizes, of_inputs: Mapping[str, Bounds] = MappingProxyType({})
) -> dict[str, str]:
    """Return why kernel calls may compute 64-bit integers that need 64 bits, by call.

    `of_inputs` are bounds of some values at the beginning. Bounds follow the bindings of each
    function; parameters have those of inputs.
    """
    problems: dict[str, str] = {}
    for function in program.functions:
        bounds = dict(of_inputs)
        for b in function.body:
            match b.expr:
                case KernelCall(kernel, args):
                    own = {
                        name: _bounds_of_value(arg.name, program, bounds, kernel.dtype(name))
                        for name, arg in zip(kernel.inputs, args, strict=True)
                    }
                    results, problem = kernel_bounds(kernel, own, sizes)
                    if problem:
                        problems[b.name] = problem
                    for name, var in zip(kernel.outputs, b.vars, strict=True):
                        bounds[var.name] = results[name]
                case View(arg):
                    dtype = arg.tensor.element
                    bounds[b.name] = _bounds_of_value(arg.name, program, bounds, dtype)
                case ShapeOf(dims):
                    numbers = [evaluate_dim(d, sizes) for d in dims] or [0]
                    bounds[b.name] = min(numbers), max(numbers)
    return problems


def _bounds_of_value(
    name: str, program: Program, bounds: Mapping[str, Bounds], dtype: DType
) -> Bounds:
    if name in program.constants:
        return of_array(program.constants[name].array)
    return bounds.get(name) or of_dtype(dtype)
