"""Well-formedness of loop-level kernels and of the scalar functions in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn, TypeAlias

from explorer.errors import VerifyError, did_you_mean
from explorer.ir.affine import Affine
from explorer.ir.combiners import COMBINERS
from explorer.ir.dims import Dim
from explorer.ir.dtypes import ITEM_BYTES, is_float, is_integer
from explorer.ir.kernel import Apply, Compute, Const, Expr, IndexValue, Kernel, Read, reads
from explorer.ir.kernels.in_place import wrong_update
from explorer.ir.kernels.normal import stores
from explorer.ir.scalar_functions import CONVERSIONS, SCALAR_FUNCTIONS
from explorer.ir.types import DType

Axes: TypeAlias = Mapping[str, Dim]


def verify_kernel(kernel: Kernel, where: str = "") -> None:
    """Raise VerifyError unless each compute reads written tensors by indices of its own axes."""
    where = where or f"kernel {kernel.name!r}"
    specs = {t.name: t for t in kernel.tensors}
    if len(specs) < len(kernel.tensors):
        _wrong("two tensors have one name", where)
    for name in (*kernel.inputs, *kernel.outputs):
        if name not in specs:
            _wrong(f"{name!r} is not a tensor of the kernel", where)
    if len(set(kernel.inputs)) < len(kernel.inputs) or not kernel.constants <= set(kernel.inputs):
        _wrong("an input occurs twice, or a constant is not an input", where)
    written: list[str] = []
    for compute in kernel.computes:
        _compute(kernel, compute, {*kernel.inputs, *written}, where)
        if compute.out in kernel.inputs or (compute.out in written and compute.out != written[-1]):
            _wrong(f"{compute.out!r} is written after it was complete", where)
        written.append(compute.out)
    if not written or written[-1] not in kernel.outputs:
        _wrong(f"the last compute must write {' or '.join(map(repr, kernel.outputs))}", where)
    if not set(kernel.outputs) <= set(written) or len(set(kernel.outputs)) < len(kernel.outputs):
        _wrong("an output is never written, or occurs twice", where)
    if len(kernel.outputs) > 1:
        _one_grid(kernel, where)
    if kernel.updates:
        _updates(kernel, where)


def _one_grid(kernel: Kernel, where: str) -> None:
    """Check that one grid of tiles fits several outputs, and tasks read only their own tiles."""
    written = stores(kernel)
    (first, *others), wrote = written, {c.out: c for c in written}
    if len(wrote) < len(written):
        _wrong("one of several outputs is written by several computes", where)
    for c in others:
        if c.axes != first.axes or kernel.shape(c.out) != kernel.shape(first.out):
            _wrong(
                f"{first.out!r} and {c.out!r} have not the same shape and axes: one grid of tiles "
                "cuts all outputs",
                where,
            )
    for c in kernel.computes:
        for r in reads(c.expr):
            if r.tensor in wrote and (c.out not in wrote or r.index != wrote[r.tensor].target):
                _wrong(f"{c.out!r} reads of {r.tensor!r} what another tile writes", where)


def _updates(kernel: Kernel, where: str) -> None:
    """Check in-place updates: the task that overwrites an element reads it before."""
    outputs, taken = [o for o, _ in kernel.updates], [i for _, i in kernel.updates]
    if len({*outputs, *taken}) < 2 * len(outputs):
        _wrong("two updates are of one tensor", where)
    for output, name in kernel.updates:
        if output not in kernel.outputs or name not in kernel.inputs or name in kernel.constants:
            _wrong(f"{output!r} over {name!r} is not an output over an input", where)
        output_spec, input_spec = kernel.spec(output), kernel.spec(name)
        if (output_spec.shape, output_spec.dtype) != (input_spec.shape, input_spec.dtype):
            _wrong(f"{output!r} is written over {name!r}, which has another type", where)
    _check(wrong_update(kernel), where)


def _wrong(problem: str, where: str) -> NoReturn:
    raise VerifyError(f"{where}: {problem}", where=where)


def _compute(kernel: Kernel, compute: Compute, readable: set[str], where: str) -> None:
    where = f"{where}, {compute.out!r}"
    axes = {a.name: a.extent for a in (*compute.axes, *compute.reduce)}
    names = [a.name for a in (*compute.axes, *compute.reduce)]
    if len(axes) < len(names):
        _wrong(f"two axes have one name: {', '.join(names)}", where)
    if bool(compute.combiner) != bool(compute.reduce) or (
        compute.combiner is not None and compute.combiner not in COMBINERS
    ):
        _wrong(f"the combiner {compute.combiner!r} does not fit {len(compute.reduce)} axes", where)
    rank = len(kernel.shape(compute.out))
    if len(compute.target) != rank:
        _wrong(f"writes {len(compute.target)} indices into a tensor of rank {rank}", where)
    for index in compute.target:
        if index.variables - {a.name for a in compute.axes}:
            _wrong("writes by an index that is not one of its axes", where)
    for index, extent in zip(compute.target, kernel.shape(compute.out), strict=True):
        _inside(index, extent, axes, "writes", where)
    computed = _expr(kernel, compute.expr, readable - {compute.out}, axes, where)
    declared = kernel.dtype(compute.out)
    if computed != declared:
        _wrong(f"computes {computed} for a tensor of {declared}", where)


def _expr(kernel: Kernel, expr: Expr, readable: set[str], axes: Axes, where: str) -> DType:
    """Return the dtype of an expression whose parts are well formed."""
    match expr:
        case Const(value, dtype):
            _check(constant_problem(value, dtype), where)
            return dtype
        case IndexValue(index):
            _affine(index, axes, where)
            return "int64"
        case Apply(op, args):
            dtypes = [_expr(kernel, arg, readable, axes, where) for arg in args]
            result, problem = result_of(op, dtypes)
            _check(problem, where)
            return result
        case Read():
            _read(kernel, expr, readable, axes, where)
            return kernel.dtype(expr.tensor)
    kind = type(expr).__name__
    _wrong(f"{expr!r:.60} ({kind}) is not an expression: call(...), Const(...), Read(...)", where)


def _read(kernel: Kernel, read: Read, readable: set[str], axes: Axes, where: str) -> None:
    tensor, index = read.tensor, read.index
    if tensor not in readable:
        _wrong(f"reads {tensor!r}, which is not there yet", where)
    if len(index) != len(kernel.shape(tensor)):
        _wrong(f"reads {tensor!r} by {len(index)} indices", where)
    if read.fill is not None:
        _check(constant_problem(read.fill, kernel.dtype(tensor)), where)
    for i, extent in zip(index, kernel.shape(tensor), strict=True):
        if isinstance(i, Affine):
            _affine(i, axes, where)
            if read.fill is None:
                _inside(i, extent, axes, f"reads {tensor!r}", where)
        else:
            index_dtype = _expr(kernel, i, readable, axes, where)
            if not is_integer(index_dtype):
                _wrong(f"reads {tensor!r} by an index of {index_dtype}", where)


def _inside(index: Affine, extent: Dim, axes: Axes, action: str, where: str) -> None:
    """Check that an index without a fill stays in its tensor; symbolic extents are skipped."""
    if not isinstance(extent, int) or not isinstance(index.const, int) or 0 in axes.values():
        return
    low = high = index.const
    for name, factor in index.terms:
        count = axes[name]
        if not isinstance(count, int) or not isinstance(factor, int):
            return
        last = factor * (count - 1)
        low, high = low + min(0, last), high + max(0, last)
    if low < 0 or high >= extent:
        _wrong(f"{action} at {low} to {high}, and it has {extent} elements there", where)


def _check(problem: str, where: str) -> None:
    if problem:
        _wrong(problem, where)


def _affine(index: Affine, axes: Axes, where: str) -> None:
    if not index.variables <= set(axes):
        _wrong(f"reads by {sorted(index.variables - set(axes))}, which are not its axes", where)


# Scalar functions: the number of arguments and their dtypes. There are no implicit conversions:
# mixed dtypes are an error.


def constant_problem(value: float | int | bool | Dim, dtype: DType) -> str:
    """Return what is wrong with a number of a dtype, in words, or ""."""
    if dtype not in ITEM_BYTES:
        return f"a constant of the unknown dtype {dtype!r}"
    if isinstance(value, float) and not is_float(dtype) and not value.is_integer():
        return f"a constant of {dtype} is {value}, and must be a whole number"
    return ""


def result_of(op: str, dtypes: Sequence[DType]) -> tuple[DType, str]:
    """Return the dtype of a scalar function's result, and what is wrong with its arguments.

    The problem is in words, "" if there is none.
    """
    if op.startswith(CONVERSIONS) and op[5:] in ITEM_BYTES:
        return op[5:], _conversion(op, dtypes)
    if op not in SCALAR_FUNCTIONS:
        near = did_you_mean(op, SCALAR_FUNCTIONS) or f"; there are {', '.join(SCALAR_FUNCTIONS)}"
        return "", f"{op!r} is not a scalar function{near}"
    record = SCALAR_FUNCTIONS[op]
    count = record.arity
    if len(dtypes) != count:
        many = "one argument" if count == 1 else f"{count} arguments"
        return "", f"{op!r} takes {many} and has {len(dtypes)}"
    chosen, same = (dtypes[:1], dtypes[1:]) if op == "where" else ((), dtypes)
    operand = same[0]
    if set(chosen) - {"bool"}:
        return "", f"{op!r} chooses by a bool, and has {chosen[0]}"
    if len(set(same)) > 1:
        return "", f"{op!r} takes arguments of one dtype, and has {' and '.join(same)}"
    if not record.is_defined_on(operand):
        allowed = ", ".join(t for t in ITEM_BYTES if record.is_defined_on(t))
        return "", f"{op!r} is not defined on {operand}; it takes {allowed}"
    return ("bool" if record.gives == "bool" else operand), ""


def _conversion(op: str, dtypes: Sequence[DType]) -> str:
    if len(dtypes) != 1:
        return f"{op!r} takes one argument and has {len(dtypes)}"
    if op.startswith("bits_") and ITEM_BYTES[dtypes[0]] != ITEM_BYTES[op[5:]]:
        return f"{op!r} of {dtypes[0]}, which has another number of bytes"
    return ""
