"""Large copies take on every data sheet what memory lets them, by every price, and a machine that
is twice as fast takes half as long: so that a number of one unit is never again taken for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import pytest

from explorer.devices.catalogue import device, device_names
from explorer.devices.model import Device
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.normal import normalise
from explorer.rammer.device_sheet_kernels import choose_pair
from explorer.roller import Price
from explorer.roller.blocks.gpu_candidates import grids
from explorer.welder import plan_group
from explorer.welder.groups import Facts
from explorer.welder.tiles.layers import task_tiles
from explorer.welder.tune_merges import latency_us
from tests.roller.operators import matmul, relu

FAR = 4.0  # a price is within this factor of the bound where operators are large
Priced = Callable[[Kernel, Device], float]


def in_blocks(kernel: Kernel, sheet: Device) -> float:
    """Rammer's: the fastest grid of thread blocks alone."""
    return choose_pair(grids(kernel, sheet), sheet).fastest.whole_us(sheet)


def in_tiles(kernel: Kernel, sheet: Device) -> float:
    """Welder's by its own policies: the best output tile."""
    facts = Facts(sheet, ShapeEnv(), Price(sheet), {}, {}, frozenset(), {})
    fits = [s for s in task_tiles(kernel, sheet) if s.fits]
    return min(latency_us(kernel, s, facts) for s in fits)


def in_levels(kernel: Kernel, sheet: Device) -> float:
    """Welder's plan of a group."""
    return plan_group(kernel, sheet).predicted_us


PRICES = (in_blocks, in_tiles, in_levels)
COPY = relu(1 << 26)


def bound_us(kernel: Kernel, sheet: Device) -> float:
    """Arithmetic at the peak; all operands once from the nearest memory that units share, and once
    from the farthest where no cache has room for them.
    """
    (c,) = kernel.computes
    points = prod(int(a.extent) for a in (*c.axes, *c.reduce))
    computing = (2 if c.reduce else 1) * points / (sheet.peak_gflops_per_unit * sheet.units * 1e3)
    sizes = [4 * prod(kernel.shape(t)) for t in (*kernel.inputs, kernel.output)]  # type: ignore[arg-type]
    caches = [m for m in sheet.levels if m.shared]
    room = max((m.capacity_bytes or 0 for m in caches), default=0)
    near = sum(sizes) / (sheet.all_gb_per_s(caches[0]) * 1e3)
    far = sum(n for n in sizes if n > room) / (sheet.all_gb_per_s(sheet.levels[-1]) * 1e3)
    return max(computing, near, far)


@pytest.mark.parametrize("name", [n for n in device_names("gpu") if n != "ipu"])
@pytest.mark.parametrize("priced", PRICES)
def test_a_large_copy_takes_what_memory_lets_it(priced: Priced, name: str) -> None:
    sheet = device(name)
    least, found = bound_us(COPY, sheet), priced(normalise(COPY), sheet)
    assert least <= found * (1 + 1e-3) and found <= FAR * least


def twice_as_fast(sheet: Device) -> Device:
    """The machine with all rates doubled, and all waits halved."""
    levels = tuple(
        replace(m, alone_gb_per_s=2 * m.alone_gb_per_s, latency_ns=m.latency_ns / 2)
        for m in sheet.levels
    )
    return replace(
        sheet, levels=levels, clock_ghz=2 * sheet.clock_ghz,
        unit_gflops=2 * sheet.unit_gflops, launch_us=sheet.launch_us / 2,
        barrier_us=sheet.barrier_us / 2, task_ns=sheet.task_ns / 2, phase_ns=sheet.phase_ns / 2,
    )  # fmt: skip


@pytest.mark.few(4)
@pytest.mark.parametrize("name", device_names("gpu"))
@pytest.mark.parametrize("kernel", [matmul(50, 128, 1000), relu(1000, 3)], ids=lambda k: k.name)
def test_twice_as_fast_takes_half_as_long(kernel: Kernel, name: str) -> None:
    sheet, bare = device(name), normalise(kernel)
    slow, fast = in_blocks(bare, sheet), in_blocks(bare, twice_as_fast(sheet))
    assert fast == pytest.approx(slow / 2, rel=1e-6)
