"""Rows of low-bit products rounded to int8 as they are read, for products of integers."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from explorer.errors import BadOption
from explorer.frontends.model import Model
from explorer.ir.calls import OpCall
from explorer.ir.program import Binding
from explorer.ops.low_bit_products import BY_INTEGERS

OPERATOR, LEVEL = "MatMulNBits", "accuracy_level"
ModelKind = TypeVar("ModelKind", bound=Model)


def round_rows(model: ModelKind) -> ModelKind:
    """Return a model whose low-bit products round their rows to int8 in blocks, as they are read.

    Products of bytes take a fraction of the time of float32 products. Each block of a row has its
    largest magnitude over 127 as scale, so an element is off by up to half of that. llama.cpp and
    `accuracy_level` 4 of onnxruntime do the same.

    Raises:
        BadOption: The model has no low-bit product.
    """
    program = model.program
    functions = tuple(replace(f, body=tuple(map(_rounded, f.body))) for f in program.functions)
    if not any(isinstance(b.expr, OpCall) and b.expr.op == OPERATOR for _, b in program.bindings()):
        raise BadOption(
            f"{model.name} has no product with weights of few bits to round rows for: quantize it "
            "first, or load a file that has them",
            where=model.name,
        )
    changed = replace(program, functions=functions)
    return replace(model, program=changed, head=b"", path="")  # it is no longer the file's


def _rounded(binding: Binding) -> Binding:
    """Return a low-bit product with its accuracy level lowered; other bindings as they are."""
    match binding.expr:
        case OpCall(op, _, attrs) as call if op == OPERATOR:
            lowered = tuple((n, v) for n, v in attrs if n != LEVEL)
            return replace(binding, expr=replace(call, attrs=(*lowered, (LEVEL, BY_INTEGERS))))
    return binding
