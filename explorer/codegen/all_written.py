"""Every element of every value that kernels make is written by a task, or nothing is emitted."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from math import prod

from explorer.codegen.build import KernelCode
from explorer.errors import VerifyError
from explorer.ir.calls import KernelCall, View
from explorer.ir.program import Function, Program
from explorer.ir.shapes.dims import Shape
from explorer.tile.covered import Box, Numbers, Unknown, boxes_of, unwritten


def check_written(program: Program, codes: Mapping[str, KernelCode]) -> None:
    """VerifyError names a value of which, under the hints, some elements are written by no task, or
    of which a task writes past the end. What is written where data says is taken on trust.
    """
    numbers = Numbers(program.env.hints)
    known: dict[tuple[int, int], tuple[Box, ...]] = {}
    for function in program.functions:
        _check(function, codes, numbers, known)


def _check(
    function: Function,
    codes: Mapping[str, KernelCode],
    numbers: Numbers,
    known: dict[tuple[int, int], tuple[Box, ...]],
) -> None:
    """Values that are written one after the other into the same memory are judged together."""
    root: dict[str, str] = {}
    parts: dict[str, list[Box]] = {}
    sizes: dict[str, Shape] = {}
    for b in function.body:
        name = b.vars[0].name
        match b.expr:
            case View(arg, _):
                root[name] = root.get(arg.name, arg.name)
            case KernelCall(kernel, args) if name in codes:
                if kernel.updates:
                    before = args[kernel.inputs.index(kernel.updates)].name
                    root[name] = root.get(before, before)
                else:
                    root[name] = name
                    parts[name] = []
                if root[name] in parts:
                    try:
                        parts[root[name]] += _boxes(codes[name], kernel.output, numbers, known)
                    except Unknown:
                        del parts[root[name]]
                    sizes[name] = kernel.shape(kernel.output)
    for name, boxes in parts.items():
        with suppress(Unknown):
            wrong = unwritten(boxes, prod(map(numbers, sizes[name])))
            if wrong:
                raise VerifyError(f"the value {name!r} has no sound tiles: {wrong}", where=name)


def _boxes(
    code: KernelCode,
    output: str,
    numbers: Numbers,
    known: dict[tuple[int, int], tuple[Box, ...]],
) -> tuple[Box, ...]:
    """What the tasks of a kernel write; kernels that share a tile program share the answer."""
    moved = next(
        (numbers(a.offset) for a in code.arguments if a.kind == "tensor" and a.name == output), 0
    )
    key = id(code.tile_program), moved
    if key not in known:
        found = boxes_of(code.tile_program, numbers)
        known[key] = tuple((start + moved, steps) for start, steps in found)
    return known[key]
