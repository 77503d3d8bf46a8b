"""Bytes of a whole program: the sum of its kernels', less where intermediates stay inside."""

from __future__ import annotations

import pytest

import explorer
from explorer.devices.catalogue import device
from explorer.ir.calls import KernelCall
from explorer.ir.program import Program
from explorer.ir.types import ITEM_BYTES
from explorer.roller import Roll
from explorer.welder import bytes_per_level, dram_bytes
from explorer.welder.tiles.levels import memories
from tests.roller.test_policy import DEVICE
from tests.welder.test_weld import legal, weld

LINE = 64


def rolled(name: str, **options: object) -> Program:
    return Roll(DEVICE)(weld(legal(name), **options))


def border_bytes(program: Program) -> tuple[int, int]:
    """Inputs and outputs of all kernels, each once: exactly, and at most, in whole lines."""
    exact = lines = 0
    for b in program.kernel_calls:
        assert isinstance(b.expr, KernelCall)
        kernel = b.expr.kernel
        for n in (*kernel.inputs, kernel.output):
            size = ITEM_BYTES[kernel.dtype(n)]
            for d in kernel.shape(n):
                size *= program.env.hint(d)
            exact, lines = exact + size, lines - (-size // LINE) * LINE
    return exact, lines


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["tiny_bert", "tiny_resnet18", "tiny_vit"])
def test_welding_moves_less_from_memory(name: str) -> None:
    welded, apart = rolled(name), rolled(name, enabled=False)
    assert dram_bytes(welded, DEVICE) < 0.8 * dram_bytes(apart, DEVICE)
    for device_ in (DEVICE, device("v100")):
        before, after = (bytes_per_level(p, device_) for p in (apart, welded))
        names = [m.name for m in memories(device_)]
        assert [m.level for m in before] == [m.level for m in after] == names
        assert after[-1].traffic == before[-1].traffic == 0


@pytest.mark.parametrize("name", ["tiny_resnet18", "tiny_vit"])
def test_what_fits_into_the_last_cache_is_moved_once(name: str) -> None:
    """Every kernel of a small model reads its inputs and writes its output once."""
    program = rolled(name, enabled=False)
    exact, lines = border_bytes(program)
    assert dram_bytes(program, DEVICE) <= lines
    assert dram_bytes(program, DEVICE) >= 0.5 * exact  # embeddings load some rows of a table


def test_bytes_before_fusion_count_every_reader_of_a_value() -> None:
    """GELU reads its bias twice: two kernels read what a third one stores once."""
    c = explorer.compile("tests/data/tiny_bert.onnx", until="welded")
    step = c.snapshot("fuse (Welder)")
    calls = {b.name: b for b in step.before.kernel_calls}
    env, graph = c.program.env, step.after.decisions.tile_graph
    for group in graph.groups:
        kernels = [calls[m] for m in group.members]
        moved = [v for b in kernels for v in (*dict.fromkeys(b.kernel_call.args), *b.vars)]
        assert group.bytes_before == sum(env.hint(v.type.bytes) for v in moved), group.name
