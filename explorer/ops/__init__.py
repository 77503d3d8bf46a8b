"""Operators: one record each, what programs mean (`evaluate`) and must satisfy (`verify`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from explorer.ir.calls import (
    Branch,
    FunctionCall,
    KernelCall,
    LibraryCall,
    Loop,
    MatchCast,
    OpCall,
    ShapeOf,
    View,
)
from explorer.ir.kernel import Kernel
from explorer.ir.program import Binding
from explorer.ops import (
    arithmetic,
    bitwise,
    casting,
    conv,
    elementwise,
    fourier,
    gather,
    generate,
    grid_sample,
    joining,
    layout,
    matmul,
    normalization,
    optimizers,
    pooling,
    quantization,
    quantized,
    recurrent,
    reduction,
    reshaping,
    resize,
    sampling,
    scatter,
    selection,
    slicing,
    softmax,
    trigonometry,
    unfolding,
)
from explorer.ops.families import FAMILIES, kernel_family
from explorer.ops.record import OperatorRecord

__all__ = ["FAMILIES", "RECORDS", "OperatorRecord", "family", "put_record", "take_record"]

_records: dict[str, OperatorRecord] = {
    record.name: record
    for room in (
        elementwise,
        arithmetic,
        casting,
        bitwise,
        quantization,
        quantized,
        matmul,
        conv,
        pooling,
        reduction,
        softmax,
        normalization,
        reshaping,
        layout,
        joining,
        slicing,
        gather,
        generate,
        resize,
        recurrent,
        sampling,
        grid_sample,
        scatter,
        selection,
        trigonometry,
        unfolding,
        fourier,
        optimizers,
    )
    for record in room.RECORDS
}
RECORDS: Mapping[str, OperatorRecord] = MappingProxyType(_records)  # ops.own_operators adds to it


def put_record(record: OperatorRecord) -> None:
    """Make a record known under its name."""
    _records[record.name] = record


def take_record(name: str) -> None:
    """Make the record of that name unknown."""
    del _records[name]


def family(thing: Binding | Kernel) -> str:
    """One of `FAMILIES`: what a binding or a kernel does."""
    if isinstance(thing, Kernel):
        return kernel_family(thing)
    match thing.expr:
        case KernelCall(kernel, _, _):
            return kernel_family(kernel)
        case Branch() | Loop() | FunctionCall():
            return "control flow"
        case LibraryCall():
            return "library call"
        case View() | MatchCast() | ShapeOf():
            return "layout"
        case OpCall(op, _, _):
            return RECORDS[op].family if op in RECORDS else "library call"
