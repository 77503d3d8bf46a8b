"""Padding of arrays in shared memory, and copies with reordered lanes.

for i on 2, k on 32 threads: xs[32 k + i] = x[i, k]
s[i] = sum[k] xs[32 k + i] ...
->
for i on 8, k on 8 threads: xs[36 k + i] = x[i, k]
s[i] = sum[k] xs[36 k + i] ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from explorer.devices.model import Device
from explorer.ir.affine import Affine, var
from explorer.ir.dtypes import ITEM_BYTES
from explorer.ir.tile_programs.elements import Buffer, Fetch, TileExpr
from explorer.ir.tile_programs.program import Grid, TileProgram
from explorer.ir.tile_programs.statements import For, Map, Reduce, Scan, Statement
from explorer.ir.tile_programs.traversal import (
    distributed_loops,
    threads_of,
    with_element,
    with_loads,
)
from explorer.tile.gpu.banks.bank_accesses import (
    Inside,
    axes_of,
    bank_accesses,
    is_shared,
    walk_statements,
)
from explorer.tile.gpu.banks.policy import Copy, Lanes, Layout, layouts
from explorer.tile.gpu.distribute import distribute_copy
from explorer.tile.gpu.operands import operands, step_along, together
from explorer.tile.verify import room_bytes, shared_bytes

Chosen: TypeAlias = Mapping[str, tuple[Buffer, Layout]]  # by name: the padded array and its layout


def pad_banks(p: TileProgram, device: Device) -> TileProgram:
    """Lay out every array in shared memory as the policy's first choice that fits.

    A multiprocessor must still hold as many blocks as before.
    """
    threads, used = threads_of(p.body), shared_bytes(p, device)
    resident = _resident_blocks(used, threads, device)
    copies = _copies(p, threads)
    chosen: dict[str, tuple[Buffer, Layout]] = {}
    for name, accesses in bank_accesses(p).items():
        for layout in layouts(accesses, copies.get(name), device):
            wide = replace(accesses[0].buffer, size=layout.size)
            grown = used + room_bytes(wide) - room_bytes(accesses[0].buffer)
            if not layout.is_plain and _resident_blocks(grown, threads, device) >= resident:
                chosen[name], used = (wide, layout), grown
                break
    if not chosen:
        return p
    body = tuple(_rewrite(s, (), chosen, threads) for s in p.body)
    buffers = tuple(chosen[b.name][0] if b.name in chosen else b for b in p.buffers)
    return replace(p, body=body, buffers=buffers)


def _resident_blocks(used: int, threads: int, device: Device) -> int:
    """Return the blocks that a multiprocessor holds with so much shared memory, maybe 0."""
    if used > device.block_shared_bytes:
        return 0
    by_threads = device.unit_threads // max(1, threads)
    most = min(device.unit_blocks or by_threads, by_threads)
    return min(most, device.unit_shared_bytes // max(1, used))


def _copies(p: TileProgram, threads: int) -> dict[str, Copy]:
    """Return the copy that fills each array; none for arrays that are filled otherwise."""
    fills: dict[str, list[Copy | None]] = {}
    for s, around in walk_statements(p.body, ()):
        if isinstance(s, Map | Reduce | Scan) and is_shared(s.target.buffer):
            copy = _copy(s, around, threads, p.grid) if isinstance(s, Map) else None
            fills.setdefault(s.target.buffer.name, []).append(copy)
    return {name: first for name, (first, *more) in fills.items() if first is not None and not more}


def _copy(s: Map, around: tuple[Inside, ...], threads: int, grid: Sequence[Grid]) -> Copy | None:
    """Return a map as the copy of an operand into an array, None if it is another one."""
    read = operands(s.expr)
    distributed = [x for x in around if x.count]
    if s.form is not None or len(read) != 1 or read[0].expr != s.expr or not distributed:
        return None
    if any(x.size != 1 for x in s.spans):
        return None
    axes = [x.span.axis for x in distributed]
    load = read[0].load
    here, there = ([step_along(f, a) for a in axes] for f in (s.target, load))
    sizes = [x.span.size for x in distributed]
    if not all(isinstance(n, int) for n in (*here, *there, *sizes)):
        return None
    times = prod(int(x.span.size) for x in around if not x.count)
    return Copy(
        tuple(map(int, sizes)), tuple(map(int, here)), tuple(map(int, there)),
        ITEM_BYTES[load.buffer.dtype], threads, times, _wide(s.expr, around, grid),
    )  # fmt: skip


def _wide(expr: TileExpr, around: tuple[Inside, ...], grid: Sequence[Grid]) -> int:
    """Return the most elements of a row in memory that are loaded at once.

    None of several is past an edge, and they begin at a multiple. A tile variable is a multiple of
    its tile.
    """
    last = around[-1].span
    if not isinstance(expr, Fetch) or expr.dynamic or last.clip_low or last.clip_high:
        return 1
    wide = together(expr.buffer.dtype)
    begins = [*around[:-1], replace(around[-1], span=replace(last, size=1))]
    steps, left = list[object](), expr.offset
    for x in reversed(begins):
        step = left.factor(x.span.axis)
        left = left.without({x.span.axis}) + x.span.base * step
        steps += [step] if x.span.size != 1 else []
    tiles = {g.variable: g.tile for g in grid}
    numbers = (*steps, *(f * tiles.get(name, 1) for name, f in left.terms), left.const, last.size)
    is_aligned = all(isinstance(n, int) and n % wide == 0 for n in numbers)
    return wide if is_aligned else 1


def _rewrite(s: Statement, around: tuple[Inside, ...], chosen: Chosen, threads: int) -> Statement:
    """Return a statement with padded arrays and reordered copies."""
    match s:
        case For(threads=None):
            inner = (*around, Inside(s.span))
            return replace(s, body=tuple(_rewrite(x, inner, chosen, threads) for x in s.body))
        case For():
            loops, body = distributed_loops(s)
            own = tuple(Inside(x.span, x.threads.count if x.threads else 1) for x in loops)
            inner_body = tuple(_rewrite(x, (*around, *own), chosen, threads) for x in body)
            match inner_body:
                case [Map() as copy] if (lanes := _copy_lanes(copy, chosen)) != Lanes():
                    return distribute_copy(
                        copy, [x.span for x in loops], threads, lanes.along, lanes.wide
                    )
            for loop in reversed(loops):
                inner_body = (replace(loop, body=inner_body),)
            return inner_body[0]
        case Map() | Reduce() | Scan():
            bases = {x.axis: x.base for x, _ in axes_of(s, around)}

            def padded(f: Fetch) -> Fetch:
                choice = chosen.get(f.buffer.name)
                return f if choice is None else _padded(f, bases, *choice)

            return replace(
                s, target=with_element(s.target, padded), expr=with_loads(s.expr, padded)
            )
    return s


def _copy_lanes(copy: Map, chosen: Chosen) -> Lanes:
    choice = chosen.get(copy.target.buffer.name)
    return choice[1].lanes if choice is not None else Lanes()


def _padded(f: Fetch, bases: Mapping[str, Affine], wide: Buffer, y: Layout) -> Fetch:
    """Return the element in the padded array."""
    rows, left = Affine(), f.offset
    for axis, base in bases.items():  # innermost first
        step = left.factor(axis)
        if not step:
            continue
        left = left.without({axis}) + base * step
        if step % y.pitch == 0:
            rows = rows + (var(axis) - base) * (step // y.pitch)
    rows = rows + left.const // y.pitch
    return Fetch(wide, f.offset + rows * y.pad)
