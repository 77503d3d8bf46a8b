"""The last step: the code of every kernel, cached with the tiled program.

Before code is emitted, a check makes sure that kernels write every element of every value.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from math import prod
from time import perf_counter
from typing import TypeAlias

from explorer.codegen.build import KernelCode, build
from explorer.codegen.cpu.compile_processes import HelpersAhead
from explorer.devices.model import Device
from explorer.errors import VerifyError
from explorer.ir.calls import KernelCall, View, efficient_binding, updates_of
from explorer.ir.dims import Shape
from explorer.ir.program import Function, Program
from explorer.ir.stage import Stage
from explorer.passes.fingerprint import program_key
from explorer.passes.snapshots import Progress, Snapshot
from explorer.tile.coverage import Box, Numbers, Unknown, boxes_of, unwritten

STEP = "generate code"
REMEMBERED_PROGRAMS = 32  # whose kernels' code is cached: a bound on memory, chosen

_codes: OrderedDict[tuple[str, Device], tuple[dict[str, KernelCode], float]] = OrderedDict()
BoxCache: TypeAlias = dict[tuple[int, str, int], tuple[Box, ...]]  # by tile program, buffer, offset


def emit(
    program: Program,
    device: Device,
    snapshots: tuple[Snapshot, ...],
    progress: Progress | None,
    cancelled: Callable[[], bool] | None,
    ahead: HelpersAhead,
) -> tuple[Snapshot, dict[str, KernelCode]]:
    """Return the step and the code of each kernel call.

    Compiling the same tiled program with other threads or policies reuses the code.
    """
    rolled = next(s.after for s in reversed(snapshots) if s.stage is Stage.ROLLED)

    def report_progress(name: str, done: int, total: int) -> bool:
        if progress is not None:
            progress(f"{STEP}: {name}", done, total)
        return not (cancelled is not None and cancelled())

    key = program_key(rolled), device
    if key in _codes:
        _codes.move_to_end(key)
        codes, seconds = _codes[key]
        return emit_snapshot(program, seconds), codes
    begin = perf_counter()
    codes = build(rolled, device, report_progress, ahead)
    check_written(rolled, codes)
    ahead.remember()
    seconds = perf_counter() - begin
    _codes[key] = (codes, seconds)
    while len(_codes) > REMEMBERED_PROGRAMS:
        _codes.popitem(last=False)
    return emit_snapshot(program, seconds, is_cached=False), codes


def emit_snapshot(program: Program, seconds: float, *, is_cached: bool = True) -> Snapshot:
    """Return the snapshot of the step; `is_cached`: the code comes from memory."""
    after = replace(program, stage=Stage.EMITTED)
    return Snapshot(STEP, Stage.EMITTED, program, after, seconds, is_cached)


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
