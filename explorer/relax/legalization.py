"""Legalisation of operators to loop-level kernels, views, or marked library calls.

    y: float32[n, 64] = Relu(x)   ->   y: float32[n, 64] = kernel relu(x)  y[i, j] = max(x[i, j], 0)

A kernel that is a reshape by its index maps becomes a view without a copy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.errors import UnsupportedOperator
from explorer.ir.affine import Affine
from explorer.ir.calls import KernelCall, Loop, OpCall, Var, View
from explorer.ir.dims import Shape, product, symbol, sympy
from explorer.ir.kernel import Apply, Const, Expr, IndexValue, Kernel, Read
from explorer.ir.kernels.normal import normalise
from explorer.ir.program import Binding, Constant, Function, Program, fresh
from explorer.ir.stage import Stage
from explorer.ir.types import ITEM_BYTES, Tensor
from explorer.ops import RECORDS
from explorer.ops.lowering import UNROLL, Lowering
from explorer.ops.record import Site
from explorer.ops.rules import in_rule
from explorer.ops.widening import lower
from explorer.passes.registry import compiler_pass
from explorer.relax.deduction.knowledge import is_known
from explorer.relax.deduction.library import last_resort
from explorer.relax.deduction.run_time import depends_on_symbols
from explorer.relax.fusion_graph import pinned
from explorer.transforms.rewrite import record_match


@compiler_pass("legalize", paper="Relax, ASPLOS 2025, section 3.3: cross-level abstraction")
@dataclass(frozen=True, slots=True)
class Legalize:
    """Operators as kernels; recurrent layers of at most `unroll` steps without a loop."""

    unroll: int = UNROLL

    def __call__(self, program: Program) -> Program:
        """Lower every graph operator.

        After: no graph operator is left, and neither are constants that nothing reads.
        """
        constants = dict(program.constants)
        names = {f.name for f in program.functions}
        taken = {v.name for f in program.functions for v in f.params}
        taken |= {v.name for f in program.functions for b in f.body for v in b.vars}
        taken |= constants.keys()
        functions: list[Function] = []
        bodies: list[Function] = []
        for function in program.functions:
            legalizer = _Function(program, function, constants, names, taken, self.unroll)
            functions.append(legalizer.legalized())
            bodies += legalizer.bodies
        functions += bodies
        read = {v.name for f in functions for v in f.outputs}
        read.update(v.name for f in functions for b in f.body for v in b.reads)
        live_constants = {n: c for n, c in constants.items() if n in read}
        return replace(
            program,
            functions=tuple(functions),
            constants=live_constants,
            stage=max(program.stage, Stage.LEGALIZED),
        )


legalize = Legalize()


class _Function:
    """A function being legalised.

    `constants`, the `names` of functions and those `taken` by values are the program's.
    """

    def __init__(
        self,
        program: Program,
        function: Function,
        constants: dict[str, Constant],
        names: set[str],
        taken: set[str],
        unroll: int,
    ) -> None:
        self.program, self.function, self.unroll = program, function, unroll
        self.constants, self.names, self.taken = constants, names, taken
        self.read = {v.name for v in function.outputs}
        self.read.update(v.name for b in function.body for v in b.reads)
        self.bodies: list[Function] = []  # of the loops that operators become

    def legalized(self) -> Function:
        body: list[Binding] = []
        for binding in self.function.body:
            if isinstance(binding.expr, OpCall):
                lowered = self.operator(binding, binding.expr)
                body += lowered
                record = RECORDS.get(binding.expr.op)
                record_match(
                    record.lower if record else legalize,
                    (binding,),
                    tuple(lowered),
                    binding.expr.op,
                )
            else:
                body.append(binding)
        return replace(self.function, body=tuple(body))

    def operator(self, binding: Binding, call: OpCall) -> list[Binding]:
        read, args = self.read, call.args
        where = min(binding.origin, default=binding.vars[0].name)
        has_shapes = all(
            map(is_known, (*binding.reads, *(v for v in binding.vars if v.name in read)))
        )
        env = self.program.env
        site = Site(call.op, where, args, dict(call.attrs), env, (), len(binding.vars))
        low = self.lowering(binding, site)
        record = RECORDS.get(call.op)
        try:
            if record is None or not has_shapes or not all(map(_has_kernels, binding.reads)):
                return _library(site, binding, call)
            with in_rule(site):
                lower(record, low)
        except UnsupportedOperator:
            return _library(site, binding, call)
        self.constants.update(low.constants)
        return self.with_bodies(low)

    def lowering(self, binding: Binding, site: Site) -> Lowering:
        read = self.read.__contains__
        return Lowering(
            site, binding.vars, binding.origin, self.constants, read, self.taken, self.unroll
        )

    def with_bodies(self, low: Lowering) -> list[Binding]:
        """Return the lowered bindings; their loop bodies get names that no function has."""
        named = {f.name: fresh(f.name, self.names) for f in low.functions}
        self.bodies += [replace(f, name=named[f.name]) for f in low.functions]
        self.names.update(named.values())
        return [
            replace(b, expr=replace(b.expr, body=named[b.expr.body]))
            if isinstance(b.expr, Loop)
            else b
            for b in low.bindings
        ]


def _library(site: Site, binding: Binding, call: OpCall) -> list[Binding]:
    """Return the operator as a library call of last resort."""
    if any(map(depends_on_symbols, site.attrs.values())):
        site.unsupported("it has no kernel rule, and no library call takes symbolic extents")
    return [Binding(binding.vars, last_resort(call), binding.origin)]


def _has_kernels(var: Var) -> bool:
    return isinstance(var.type, Tensor) and var.type.dtype in ITEM_BYTES


@compiler_pass("reshape-views", paper="Relax, ASPLOS 2025, section 4.3: reshapes share storage")
def name_reshapes(program: Program) -> Program:
    """Replace reshape kernels by views.

    After: no kernel only renames bytes. `y[i] = x[i//4, i%4]` becomes a view of x.
    """
    for function in program.functions:
        pinned_values = pinned(function)
        body = tuple(
            b if pinned_values.keys() & {v.name for v in b.vars} else _as_view(b)
            for b in function.body
        )
        program = program.with_function(replace(function, body=body))
    return program


def _as_view(binding: Binding) -> Binding:
    match binding.expr:
        case KernelCall(kernel, (arg,), _) if is_reshape(kernel) or is_reshape(normalise(kernel)):
            return replace(binding, expr=View(arg))
    return binding


def is_reshape(kernel: Kernel) -> bool:
    """Return True if a kernel copies without moving bytes, so that a view can replace it.

    The flattened index that it loads from is the flattened index that it stores to.
    """
    if len(kernel.computes) != 1 or len(kernel.inputs) != 1 or kernel.updates:
        return False
    c = kernel.computes[0]
    if not isinstance(c.expr, Read) or c.reduce or c.expr.fill is not None:
        return False
    source, result = kernel.shape(c.expr.tensor), kernel.shape(c.out)
    if kernel.dtype(c.expr.tensor) != kernel.dtype(c.out) or product(source) != product(result):
        return False
    axes = {a.name: sympy.Integer(0) if a.extent == 1 else symbol(f"axis {a.name}") for a in c.axes}
    store = _flat(c.target, result, axes)
    load = _flat(c.expr.index, source, axes)
    return load is not None and store is not None and sympy.expand(load - store) == 0


def _flat(
    index: tuple[Affine | Expr, ...], shape: Shape, axes: dict[str, sympy.Expr]
) -> sympy.Expr | None:
    """Return the row-major position, or None if an index is not of integers and axes."""
    total = sympy.Integer(0)
    for entry, extent in zip(index, shape, strict=True):
        value = _as_integer(entry, axes)
        if value is None:
            return None
        total = total * extent + value
    return total


def _as_integer(index: Affine | Expr, axes: dict[str, sympy.Expr]) -> sympy.Expr | None:
    match index:
        case Affine():
            return sum((axes[n] * f for n, f in index.terms), sympy.sympify(index.const))
        case IndexValue(inner):
            return _as_integer(inner, axes)
        case Const(value, _) if isinstance(value, (int, sympy.Expr)):
            return sympy.sympify(value)
        case Apply(("floordiv" | "mod") as op, (left, right)):
            a, b = _as_integer(left, axes), _as_integer(right, axes)
            if a is None or b is None or b == 0:
                return None
            floored = sympy.floor(a / b)
            return floored if op == "floordiv" else a - b * floored
        case Apply(("add" | "sub" | "mul") as op, (left, right)):
            a, b = _as_integer(left, axes), _as_integer(right, axes)
            if a is None or b is None:
                return None
            return a + b if op == "add" else a - b if op == "sub" else a * b
        case _:
            return None
