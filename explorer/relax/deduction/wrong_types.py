"""Types of the bindings that a user's pass changed: each must be what its expression computes.

Kernels that it changed must not access symbolic extents outside of their bounds.

The rest of the compiler relies on annotations: a value that is shorter than its annotation would be
read outside of its memory. Bindings that the pass did not change are not looked at again.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.cached_property import cached_property
from explorer.errors import IronworksError, UnsupportedOperator, did_you_mean
from explorer.ir.annotations import Match, match
from explorer.ir.calls import Expr, KernelCall, OpCall, ShapeOf, Var, View, reads_of
from explorer.ir.dims import Dim, ShapeEnv, product
from explorer.ir.program import Binding, Function, Program
from explorer.ir.symbols import parameter_symbols
from explorer.ir.text.text_tokens import print_type
from explorer.ir.types import Annotation, Tensor
from explorer.ops import RECORDS
from explorer.ops.attribute_names import unknown_attribute
from explorer.ops.record import Site, arguments_by_value
from explorer.ops.rules import check_site
from explorer.ops.shape_rules import ImpliedBound, Unprovable
from explorer.ops.symbolic_accesses import Access, accesses, find_outside_access
from explorer.relax.deduction.knowledge import Knowledge, is_known
from explorer.relax.deduction.library import coarse_types, library_types


def find_wrong_type(before: Program, after: Program) -> str:
    """Return why a changed binding is not of its type, "" if all are.

    The words name the binding, the type that it states, and the type of its expression.
    """
    old_functions = {f.name: f for f in before.functions}
    changed = [f for f in after.functions if old_functions.get(f.name) != f]
    if not changed:
        return ""
    unchanged = {id(b) for f in before.functions for b in f.body}
    checker = _Checker(before, after)
    for function in changed:
        new = [b for b in function.body if id(b) not in unchanged]
        for why in checker.faults(function, new):
            return why
    return ""


class _Checker:
    """The bindings of the program before a pass, and what is known of the one after it."""

    def __init__(self, before: Program, after: Program) -> None:
        self.env: ShapeEnv = after.env
        self.after, self.knowledge = after, Knowledge(after.constants)
        self.before = [b for _, b in before.bindings()]
        self.signatures = {s for b in self.before if (s := _signature(b))}

    @cached_property
    def trusted(self) -> frozenset[Access]:
        """The accesses of all kernels before the pass."""
        kernels = (b.expr.kernel for b in self.before if isinstance(b.expr, KernelCall))
        return frozenset(access for kernel in kernels for access in accesses(kernel))

    def faults(self, function: Function, bindings: list[Binding]) -> Iterator[str]:
        """Yield what is wrong with new bindings of a function, and with its outputs."""
        defined = {v.name: v.type for v in function.params}
        defined |= {n: c.type for n, c in self.after.constants.items()}
        defined |= {v.name: v.type for b in function.body for v in b.vars}
        for binding in bindings:
            for var in reads_of(binding.expr):
                where = f"the binding {binding.name!r}"
                yield from self.misread(var, defined.get(var.name, var.type), where)
            signature = _signature(binding)
            if signature is None or signature not in self.signatures:
                yield from self.mistyped(binding)
        for var in function.outputs:
            where = f"the output of {function.name!r}"
            yield from self.misread(var, defined.get(var.name, var.type), where)

    def misread(self, var: Var, defined: Annotation, where: str) -> Iterator[str]:
        """Yield that a value is read as another type than it has."""
        if var.type != defined and match(var.type, defined, self.env)[0] < Match.PROVED:
            types = f"{print_type(var.type)}, and it is {print_type(defined)}"
            yield f"{where} reads {var.name!r} as {types}"

    def mistyped(self, binding: Binding) -> Iterator[str]:
        """Yield what is wrong with the types of one binding."""
        match binding.expr:
            case OpCall() as call:
                yield from self.operator(binding, call)
            case KernelCall(kernel):
                free = frozenset(parameter_symbols(self.after.main))
                why = find_outside_access(kernel, self.env, self.trusted, free)
                if why:
                    yield f"the kernel of {binding.name!r} {why}"
            case View(arg, offset):
                yield from self.view(binding, arg, offset)
            case ShapeOf(dims, rank):
                shape = Tensor((len(dims),) if rank else (), "int64")
                yield from self.compare(binding, binding.expr, binding.var, shape)

    def operator(self, binding: Binding, call: OpCall) -> Iterator[str]:
        """Yield how the results of an operator differ from the values that it binds."""
        record, name = RECORDS.get(call.op), f"the binding {binding.name!r}"
        if record is None and not _is_in_onnx(call):
            near = did_you_mean(call.op, RECORDS)
            yield f"{name} calls {call.op!r}, which is no operator{near}"
            return
        earlier = [b.expr for b in self.before if isinstance(b.expr, OpCall)]
        seen = {n for e in earlier if e.op == call.op for n, _ in e.attrs}
        if record is not None and (why := unknown_attribute(record, dict(call.attrs), seen)):
            yield f"{name}: {why}"
            return
        try:
            types = self.deduced(call, len(binding.vars), binding.name)
        except (Unprovable, ImpliedBound) as undecided:
            if all(is_known(v) for v in binding.vars):
                stated = ", ".join(print_type(v.type) for v in binding.vars)
                yield f"{name} is {stated}, and {_text(call)} is not proved to be: {undecided}"
            return
        except IronworksError as refused:
            yield f"{name}: {refused.sentence}"
            return
        if len(types) != len(binding.vars):
            yield f"{name} has {len(binding.vars)} values, and {_text(call)} has {len(types)}"
        for var, computed in zip(binding.vars, types):
            yield from self.compare(binding, call, var, computed)

    def deduced(self, call: OpCall, results: int, where: str) -> tuple[Annotation, ...]:
        """Return the types that an operator's rule deduces from its arguments."""
        record, constants = RECORDS.get(call.op), self.after.constants
        if record is None:
            return tuple(v.type for v in library_types(call, results, constants, where))
        if not all(is_known(a) for a in call.args):
            return tuple(v.type for v in coarse_types(call, results, constants, where))
        values = tuple(self.knowledge.values(a) for a in call.args)
        site = Site(call.op, where, call.args, dict(call.attrs), self.env, values, results)
        check_site(record, site)
        site = arguments_by_value(record, site)
        if any(site.has(p) for p in record.by_value):
            raise Unprovable("it depends on values of the run")
        try:
            return record.deduce(site)
        except UnsupportedOperator:
            return tuple(v.type for v in library_types(call, results, constants, where))

    def compare(
        self, binding: Binding, expr: Expr, var: Var, computed: Annotation
    ) -> Iterator[str]:
        """Yield how a computed type differs from that of the value that is bound."""
        level, why = match(var.type, computed, self.env)
        if level < Match.PROVED:
            stated, actual = print_type(var.type), print_type(computed)
            reason = f" ({why.partition(';')[0]})" if level == Match.CHECKED else ""
            yield f"the binding {var.name!r} is {stated}, and {_text(expr)} is {actual}{reason}"

    def view(self, binding: Binding, arg: Var, offset: Dim) -> Iterator[str]:
        """Yield that a view does not fit into its argument for every binding of the symbols."""
        if not (is_known(arg) and is_known(binding.var)):
            return
        left = product(arg.tensor.dims) - product(binding.var.tensor.dims) - offset
        if self.env.bounds(left)[0] < 0 or self.env.bounds(offset)[0] < 0:
            stated, actual = print_type(binding.var.type), print_type(arg.type)
            yield f"the binding {binding.name!r} is {stated}, a view of {arg.name!r}: {actual}"


def _signature(binding: Binding) -> object:
    """Return what decides the types of an operator, None for other expressions."""
    call = binding.expr
    if not isinstance(call, OpCall):
        return None
    args = tuple(None if a is None else a.type for a in call.args)
    signature = (call.op, args, call.attrs, tuple(v.type for v in binding.vars))
    try:
        hash(signature)
    except TypeError:
        return None
    return signature


def _is_in_onnx(call: OpCall) -> bool:
    import onnx  # only where a user's pass calls an operator without a record

    return bool(onnx.defs.has(call.op, str(call.attr("domain", ""))))


def _text(expr: Expr) -> str:
    """Return an operator with the names of its arguments."""
    if isinstance(expr, OpCall):
        return f"{expr.op}({', '.join('None' if a is None else a.name for a in expr.args)})"
    return type(expr).__name__
