"""Whether a loop-level kernel is well formed."""

from __future__ import annotations

from typing import NoReturn

from explorer.errors import VerifyError
from explorer.ir.kernel import (
    COMBINERS,
    CONVERSIONS,
    SCALAR_FUNCTIONS,
    Affine,
    Apply,
    Compute,
    Const,
    Expr,
    IndexValue,
    Kernel,
    Read,
    result_dtype,
)
from explorer.ir.types import ITEM_BYTES


def verify_kernel(kernel: Kernel, where: str = "") -> None:
    """VerifyError unless every compute reads what is there, by indices of its own axes."""
    where = where or f"kernel {kernel.name!r}"
    specs = {t.name: t for t in kernel.tensors}
    if len(specs) < len(kernel.tensors):
        _wrong("two tensors have one name", where)
    for name in (*kernel.inputs, kernel.output):
        if name not in specs:
            _wrong(f"{name!r} is no tensor of the kernel", where)
    if len(set(kernel.inputs)) < len(kernel.inputs) or not kernel.constants <= set(kernel.inputs):
        _wrong("an input stands twice, or a constant is no input", where)
    written: list[str] = []
    for compute in kernel.computes:
        _compute(kernel, compute, {*kernel.inputs, *written}, where)
        if compute.out in kernel.inputs or (compute.out in written and compute.out != written[-1]):
            _wrong(f"{compute.out!r} is written after it was complete", where)
        written.append(compute.out)
    if not written or written[-1] != kernel.output:
        _wrong(f"the last compute must write {kernel.output!r}", where)


def _wrong(problem: str, where: str) -> NoReturn:
    raise VerifyError(f"{where}: {problem}", where=where)


def _compute(kernel: Kernel, compute: Compute, readable: set[str], where: str) -> None:
    where = f"{where}, {compute.out!r}"
    names = [a.name for a in (*compute.axes, *compute.reduce)]
    if len(set(names)) < len(names):
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
            _wrong("writes by an index that is none of its axes", where)
    _expr(kernel, compute.expr, readable - {compute.out}, set(names), where)
    made, wanted = result_dtype(compute.expr, kernel), kernel.dtype(compute.out)
    if made != wanted:
        _wrong(f"computes {made} for a tensor of {wanted}", where)


def _expr(kernel: Kernel, expr: Expr, readable: set[str], axes: set[str], where: str) -> None:
    match expr:
        case Const(_, dtype):
            if dtype not in ITEM_BYTES:
                _wrong(f"a constant of the unknown dtype {dtype!r}", where)
        case IndexValue(index):
            _affine(index, axes, where)
        case Apply(op, args):
            conversion = op.startswith(CONVERSIONS) and op[5:] in ITEM_BYTES
            if op not in SCALAR_FUNCTIONS and not conversion:
                _wrong(f"{op!r} is no scalar function", where)
            for arg in args:
                _expr(kernel, arg, readable, axes, where)
        case Read(tensor, index, _):
            if tensor not in readable:
                _wrong(f"reads {tensor!r}, which is not there yet", where)
            if len(index) != len(kernel.shape(tensor)):
                _wrong(f"reads {tensor!r} by {len(index)} indices", where)
            for i in index:
                if isinstance(i, Affine):
                    _affine(i, axes, where)
                else:
                    _expr(kernel, i, readable, axes, where)


def _affine(index: Affine, axes: set[str], where: str) -> None:
    if not index.variables <= axes:
        _wrong(f"reads by {sorted(index.variables - axes)}, which are none of its axes", where)
