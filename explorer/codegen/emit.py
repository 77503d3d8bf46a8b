"""The last step: the code of every kernel, cached with the tiled program."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from explorer.codegen.build import KernelCode, build
from explorer.codegen.check_written import check_written
from explorer.codegen.cpu.object.helper_count import HelpersAhead
from explorer.devices.model import Device
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.passes.pipeline.fingerprint import program_key
from explorer.passes.pipeline.pipeline import Progress, Snapshot

STEP = "generate code"
REMEMBERED_PROGRAMS = 32  # whose kernels' code is cached: a bound on memory, chosen

_codes: OrderedDict[tuple[str, Device], tuple[dict[str, KernelCode], float]] = OrderedDict()


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
