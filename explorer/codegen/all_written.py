"""Every element of every value that kernels make is written by a task, or nothing is emitted."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import prod
from typing import TypeAlias

from explorer.codegen.build import KernelCode
from explorer.errors import VerifyError
from explorer.ir.calls import KernelCall, View, efficient_binding, updates_of
from explorer.ir.program import Function, Program
from explorer.ir.shapes.dims import Shape
from explorer.tile.covered import Box, Numbers, Unknown, boxes_of, unwritten

Known: TypeAlias = dict[tuple[int, str, int], tuple[Box, ...]]  # by tile program, buffer, offset


def check_written(program: Program, codes: Mapping[str, KernelCode]) -> None:
    """VerifyError names a value of which, under the hints, some elements are written by no task, or
    of which a task writes past the end, with the fastest or with the efficient tilings. What is
    written where data says is taken on trust.
    """
    numbers = Numbers(program.env.hints)
    known: Known = {}
    other = {name: codes.get(efficient_binding(name), code) for name, code in codes.items()}
    for function in program.functions:
        _check(function, codes, numbers, known)
        if other != codes:
            _check(function, other, numbers, known)


def _check(
    function: Function,
    codes: Mapping[str, KernelCode],
    numbers: Numbers,
    known: Known,
) -> None:
    """Values that are written one after the other into the same memory are judged together."""
    root: dict[str, str] = {}
    parts: dict[str, list[Box]] = {}
    sizes: dict[str, Shape] = {}
    for b in function.body:
        match b.expr:
            case View(arg, _):
                root[b.name] = root.get(arg.name, arg.name)
            case KernelCall(kernel) as call if b.name in codes:
                over = {v.name: of.name for v, of in updates_of(call, b.vars)}
                for output, var in zip(kernel.outputs, b.vars, strict=True):
                    name, before = var.name, over.get(var.name, var.name)
                    root[name] = root.get(before, before)
                    if before == name:
                        parts[name] = []
                    if root[name] not in parts:
                        continue
                    try:
                        parts[root[name]] += _boxes(codes[b.name], output, numbers, known)
                    except Unknown:
                        del parts[root[name]]
                    sizes[name] = kernel.shape(output)
    for name, boxes in parts.items():
        with suppress(Unknown):
            wrong = unwritten(boxes, prod(map(numbers, sizes[name])))
            if wrong:
                raise VerifyError(f"the value {name!r} has no sound tiles: {wrong}", where=name)


def _boxes(
    code: KernelCode,
    output: str,
    numbers: Numbers,
    known: Known,
) -> tuple[Box, ...]:
    """What the tasks of a kernel write; kernels that share a tile program share the answer."""
    tensors = (a for a in code.arguments if a.kind == "tensor" and a.name == output)
    local, moved = next(((a.local, numbers(a.offset)) for a in tensors), ("", 0))
    key = id(code.tile_program), local, moved
    if key not in known:
        found = boxes_of(code.tile_program, local, numbers)
        known[key] = tuple((start + moved, steps) for start, steps in found)
    return known[key]
