"""The check that kernels write every element of every value, before code is emitted."""

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
from explorer.tile.coverage import Box, Numbers, Unknown, boxes_of, unwritten

BoxCache: TypeAlias = dict[tuple[int, str, int], tuple[Box, ...]]  # by tile program, buffer, offset


def check_written(program: Program, codes: Mapping[str, KernelCode]) -> None:
    """Raise VerifyError for a value with unwritten elements or with writes past its end.

    Elements are counted under the hints, for the fastest and for the efficient tilings. Writes to
    data-dependent indices are not checked.
    """
    numbers = Numbers(program.env.hints)
    cache: BoxCache = {}
    other = {name: codes.get(efficient_binding(name), code) for name, code in codes.items()}
    for function in program.functions:
        _check(function, codes, numbers, cache)
        if other != codes:
            _check(function, other, numbers, cache)


def _check(
    function: Function,
    codes: Mapping[str, KernelCode],
    numbers: Numbers,
    cache: BoxCache,
) -> None:
    """Check a function's values; values written into the same memory are checked together."""
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
                        parts[root[name]] += _boxes(codes[b.name], output, numbers, cache)
                    except Unknown:
                        del parts[root[name]]
                    sizes[name] = kernel.shape(output)
    for name, boxes in parts.items():
        with suppress(Unknown):
            wrong = unwritten(boxes, prod(map(numbers, sizes[name])))
            if wrong:
                raise VerifyError(
                    f"the value {name!r} is not written correctly by its tiles: {wrong}", where=name
                )


def _boxes(
    code: KernelCode,
    output: str,
    numbers: Numbers,
    cache: BoxCache,
) -> tuple[Box, ...]:
    """Return the boxes that a kernel's tasks write, cached by tile program."""
    tensors = (a for a in code.arguments if a.kind == "tensor" and a.name == output)
    local, moved = next(((a.local, numbers(a.offset)) for a in tensors), ("", 0))
    key = id(code.tile_program), local, moved
    if key not in cache:
        boxes = boxes_of(code.tile_program, local, numbers)
        cache[key] = tuple((start + moved, steps) for start, steps in boxes)
    return cache[key]
