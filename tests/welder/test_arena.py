"""What a group makes and uses inside takes no bytes of the arena."""

from __future__ import annotations

import pytest

import explorer
from explorer.ir.calls import KernelCall
from explorer.welder import Options


@pytest.mark.few(1)
@pytest.mark.parametrize("model", ["small_bert", "small_nafnet", "small_mobilenetv2"])
def test_intermediates_of_a_group_take_no_arena_bytes(model: str) -> None:
    welded = explorer.compile(f"zoo:{model}", until="PLANNED")
    apart = welded.with_options(welder=Options(enabled=False))
    graph = welded.program.decisions.tile_graph
    assert graph is not None
    inside = {m for g in graph.groups for m in g.members} - {g.name for g in graph.groups}
    placed = {b.name for b in welded.memory().buffers}
    assert inside and not inside & placed
    assert inside <= {b.name for b in apart.memory().buffers}
    assert welded.memory().naive_bytes < apart.memory().naive_bytes


def test_a_program_has_a_kernel_for_each_group() -> None:
    program = explorer.compile("zoo:small_nafnet", until="WELDED").program
    graph = program.decisions.tile_graph
    assert graph is not None
    kernels = [b.var.name for b in program.main.body if isinstance(b.expr, KernelCall)]
    assert kernels == [g.name for g in graph.groups]
