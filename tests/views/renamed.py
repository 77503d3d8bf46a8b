"""The same program with other names for all that has one: values, functions, axes, tensors."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from explorer.ir.affine import var
from explorer.ir.calls import Branch, Expr, FunctionCall, Gradient, KernelCall, Loop, Var
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Axis, Compute, Kernel, rename_tensors, substitute
from explorer.ir.program import Binding, Function, Program
from explorer.transforms.simplify.substitution import with_reads


def renamed(program: Program, seed: int = 0) -> Program:
    """Every name is another one, and names that were taken may now be another value's."""
    random = Random(seed)
    bound = [p.name for f in program.functions for p in f.params]
    bound += [v.name for _, b in program.bindings() for v in b.vars]
    old = [*dict.fromkeys((*bound, *program.constants))]
    new = list(old)
    random.shuffle(new)
    values = {a: f"v_{b}" for a, b in zip(old, new, strict=True)}
    functions = {f.name: f"f_{n}" for n, f in enumerate(program.functions)}

    def one(v: Var) -> Var:
        return Var(values[v.name], v.type)

    def binding(b: Binding) -> Binding:
        reads = {v.name: one(v) for v in b.reads}
        expr = _called(with_reads(b.expr, reads), functions)
        return Binding(tuple(map(one, b.vars)), _in_kernel(expr), b.origin)

    changed = tuple(
        Function(
            functions[f.name],
            tuple(map(one, f.params)),
            tuple(map(binding, f.body)),
            tuple(map(one, f.outputs)),
            f.output_names,
        )
        for f in program.functions
    )
    constants = {values[name]: c for name, c in program.constants.items()}
    return replace(program, functions=changed, constants=constants)


def _called(expr: Expr, names: dict[str, str]) -> Expr:
    match expr:
        case Branch():
            return replace(expr, then=names[expr.then], orelse=names[expr.orelse])
        case Loop():
            return replace(expr, body=names[expr.body])
        case FunctionCall() | Gradient():
            return replace(expr, function=names[expr.function])
    return expr


def _in_kernel(expr: Expr) -> Expr:
    if not isinstance(expr, KernelCall):
        return expr
    kernel, axes = _kernel(expr.kernel)
    tilings = (expr.tiling, expr.efficient)
    first, second = (_tiling(t, axes) for t in tilings)
    return replace(expr, kernel=kernel, tiling=first, efficient=second)


def _tiling(tiling: Tiling | None, axes: dict[str, str]) -> Tiling | None:
    if tiling is None:
        return None
    return replace(tiling, tile=tuple((axes.get(a, a), n) for a, n in tiling.tile))


def _kernel(kernel: Kernel) -> tuple[Kernel, dict[str, str]]:
    axes: dict[str, str] = {}
    for c in kernel.computes:
        for a in (*c.axes, *c.reduce):
            axes.setdefault(a.name, f"axis{len(axes)}")
    computes = tuple(_compute(c, axes) for c in kernel.computes)
    tensors = {t.name: f"tensor_{n}" for n, t in enumerate(kernel.tensors)}
    return rename_tensors(replace(kernel, name="other", computes=computes), tensors), axes


def _compute(c: Compute, axes: dict[str, str]) -> Compute:
    values = {old: var(new) for old, new in axes.items()}
    return replace(
        c,
        axes=tuple(Axis(axes[a.name], a.extent) for a in c.axes),
        reduce=tuple(Axis(axes[a.name], a.extent) for a in c.reduce),
        store=tuple(i.substitute(values) for i in c.store),
        expr=substitute(c.expr, values),
    )
