"""Products of 16-bit floats stay products of them where hardware makes these: what was converted to
float32 before it was multiplied is read as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Var
from explorer.ir.dtypes import DType, numpy_dtype
from explorer.ir.kernel import Apply, Compute, Expr, Kernel, Read, reads
from explorer.ir.patterns.contraction import product_of
from explorer.ir.program import Binding, Constant, Function, Program
from explorer.ir.types import Tensor
from explorer.passes.pipeline.names import fresh
from explorer.passes.pipeline.registry import compiler_pass
from explorer.passes.rewrite_trace import matched
from explorer.tile.gpu.matrix_units import MULTIPLIED, has_matrix_units


@compiler_pass(
    "narrow-products", paper="Micikevicius et al. 2018, Mixed precision training, section 3"
)
@dataclass(frozen=True, slots=True)
class NarrowProducts:
    """On a device whose matrix units multiply such floats, and on no other."""

    device: Device

    def __call__(self, program: Program) -> Program:
        """After: a sum of products in float32 reads two tensors of 16-bit floats where both were
        converted from one type of these: `a = cast x; b = cast w; y = sum a * b` becomes `y = sum
        cast(x) * cast(w)`. A constant is converted where it stands, if no element changes. Each
        product is what it was, for float32 has room for it.
        """
        if not has_matrix_units(self.device):
            return program
        constants = dict(program.constants)
        functions = tuple(_Function(f, constants).after() for f in program.functions)
        if all(a is b for a, b in zip(functions, program.functions, strict=True)):
            return program
        return replace(program, functions=functions, constants=constants)


class _Function:
    """A function whose products are looked at; new constants are added to the program's."""

    def __init__(self, function: Function, constants: dict[str, Constant]) -> None:
        self.function, self.constants = function, constants
        self.taken = {*constants, *(v.name for b in function.body for v in b.vars)}
        self.cast: dict[str, tuple[Var, Binding]] = {}  # what was converted to float32, and where

    def after(self) -> Function:
        """The function; conversions that nothing reads are left there."""
        body: list[Binding] = []
        for binding in self.function.body:
            source = _converted(binding)
            if source is not None:
                self.cast[binding.var.name] = source, binding
            new = self._narrowed(binding)
            if new is not binding:
                matched(NarrowProducts, (binding,), (new,))
            body.append(new)
        if all(a is b for a, b in zip(body, self.function.body, strict=True)):
            return self.function
        return replace(self.function, body=tuple(body))

    def _narrowed(self, binding: Binding) -> Binding:
        if not isinstance(binding.expr, KernelCall):
            return binding
        for c in binding.expr.kernel.computes:
            binding = self._product(binding, c) or binding
        return binding

    def _product(self, binding: Binding, c: Compute) -> Binding | None:
        """A binding in which one compute reads what was converted; None where it does not."""
        call = binding.kernel_call
        kernel, args = call.kernel, dict(zip(call.kernel.inputs, call.args, strict=True))
        pair = product_of(c.expr)
        if pair is None or c.combiner != "sum" or kernel.dtype(c.out) != "float32":
            return None
        for dtype in MULTIPLIED:
            found = {r.tensor: self._source(kernel, args, r.tensor, dtype) for r in pair}
            if all(found.values()) and any(kernel.dtype(t) == "float32" for t in found):
                break
        else:
            return None
        sources = {t: s for t, s in found.items() if s is not None}
        made = _reading(kernel, c, {t: dtype for t in sources})
        if made is None:
            return None
        origin = frozenset[str]().union(*(o for _, o in sources.values()))
        values = tuple(sources[n][0] if n in sources else v for n, v in args.items())
        computes = tuple(
            replace(x, origin=x.origin | origin) if x.out == c.out else x for x in made.computes
        )
        new = replace(call, kernel=replace(made, computes=computes), args=values)
        return replace(binding, expr=new, origin=binding.origin | origin)

    def _source(
        self, kernel: Kernel, args: Mapping[str, Var], tensor: str, dtype: DType
    ) -> tuple[Var, frozenset[str]] | None:
        """What a factor was before it was converted from a type, and whose conversion that was."""
        arg = args.get(tensor)
        if arg is None or not isinstance(arg.type, Tensor):
            return None
        if arg.type.dtype == dtype:
            return arg, frozenset()
        source = self.cast.get(arg.name)
        if source is not None and source[0].tensor.element == dtype:
            return source[0], source[1].origin
        constant = self.constants.get(arg.name)
        return None if constant is None else self._constant(arg, constant.array, dtype)

    def _constant(
        self, arg: Var, array: np.ndarray, dtype: DType
    ) -> tuple[Var, frozenset[str]] | None:
        with np.errstate(over="ignore"):
            narrow = array.astype(numpy_dtype(dtype))
        if array.dtype != np.float32 or not np.array_equal(
            narrow.astype(np.float32), array, equal_nan=True
        ):
            return None
        name = f"{arg.name}.{dtype}"
        if name not in self.constants:
            name = fresh(name, self.taken)
            self.taken.add(name)
            self.constants[name] = Constant(narrow)
        return Var(name, replace(arg.tensor, dtype=dtype)), frozenset()


def _converted(binding: Binding) -> Var | None:
    """What a binding converts to float32, each element in its place."""
    call = binding.expr
    if not isinstance(call, KernelCall) or len(call.kernel.computes) != 1 or len(call.args) != 1:
        return None
    kernel, (c,) = call.kernel, call.kernel.computes
    match c.expr:
        case Apply("cast_float32", (Read(fill=None) as read,)) if not c.reduce:
            one = {a.name: Affine() for a in c.axes if a.extent == 1}  # read at 0, or by the axis
            there = tuple(i.substitute(one) for i in read.index if isinstance(i, Affine))
            same = kernel.shape(c.out) == kernel.shape(read.tensor)
            here = tuple(i.substitute(one) for i in c.target)
            return call.args[0] if same and there == here else None
    return None


def _reading(kernel: Kernel, c: Compute, dtypes: Mapping[str, DType]) -> Kernel | None:
    """The kernel with other tensors for the factors of one compute; None where they are read
    elsewhere too, or the product does more than to convert them.
    """

    def plain(expr: Expr) -> Expr:
        return expr.args[0] if isinstance(expr, Apply) and expr.op == "cast_float32" else expr

    match c.expr:
        case Apply("mul", (x, y)) if isinstance(plain(x), Read) and isinstance(plain(y), Read):
            factors = plain(x), plain(y)
        case _:
            return None
    others = (r.tensor for x in kernel.computes if x is not c for r in reads(x.expr))
    if not set(dtypes).isdisjoint(others):
        return None
    sides = tuple(Apply("cast_float32", (f,)) for f in factors)
    new = replace(c, expr=Apply("mul", sides))
    return replace(
        kernel,
        tensors=tuple(replace(t, dtype=dtypes.get(t.name, t.dtype)) for t in kernel.tensors),
        computes=tuple(new if x is c else x for x in kernel.computes),
    )
