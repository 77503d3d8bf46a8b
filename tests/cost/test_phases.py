"""What threads of a block do one after the other takes its time, however little each is."""

from __future__ import annotations

from dataclasses import replace

import explorer
from explorer.cost.thread_blocks import thread_blocks
from explorer.devices.catalogue import device
from explorer.ir.decisions.tiling import thread_block
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernels.normal import normalise
from explorer.roller.blocks.gpu_candidates import grids
from explorer.tile.gpu.demand import Demand, Work, demand_of
from explorer.tile.gpu.rewrites import unsynced
from tests.codegen.cases import linear

H100 = device("h100")


def test_a_phase_costs_what_the_sheet_says() -> None:
    demand = Demand(8, 32, 0, 4, (Work(100, 32, 1),), 1, 5)
    base, more = (
        thread_blocks(H100, "", replace(demand, phases=n), (64.0, 0.0)).alone_us for n in (5, 9)
    )
    assert abs(more - base - 4 * H100.phase_ns / 1e3) < 1e-9 and H100.phase_ns > 0


def test_phases_are_counted_as_often_as_threads_go_through_them() -> None:
    """Of each chunk both operands are stored, the next ones loaded, and there are sums; before all
    chunks there are zeros and the first ones loaded, behind them there is what is made.
    """

    def phases(at_once: int) -> int:
        kernel = normalise(linear(64, 96, 64, "relu", {}).kernel)
        main, last = kernel.computes[0], kernel.computes[-1]
        (i, j), (k,) = (a.name for a in main.axes), (a.name for a in main.reduce)
        tile = tuple((a.name, 32) for a in last.axes)
        block = thread_block(tile, 64, ((i, 4), (j, 4)), ((k, at_once),))
        return demand_of(unsynced(kernel, block, ShapeEnv(), H100), H100).phases

    assert [phases(n) for n in (8, 16, 32)] == [5 * chunks + 4 for chunks in (12, 6, 3)]


def test_the_plan_of_what_was_recorded_is_within_a_third() -> None:
    """The sheet's number is from this recording: it holds for the whole, too, and orders calls."""
    c = explorer.compile("zoo:small_bert", target="h100", until="planned")
    run = c.recorded("h200")
    planned = c.as_recorded(run).planned_wall(dict(run.sizes))
    assert 0.7 < planned.total_us / run.wall.total_us < 1.3


def test_the_parts_of_a_grids_time_are_all_of_it() -> None:
    found = grids(normalise(linear(64, 96, 640, "relu", {}).kernel), H100)
    assert found
    for g in found:
        parts = dict(g.parts_us(H100))
        assert abs(sum(parts.values()) - g.whole_us(H100)) < 1e-9 * g.whole_us(H100)
        assert min(parts.values()) >= 0 and parts["compute"] > 0
