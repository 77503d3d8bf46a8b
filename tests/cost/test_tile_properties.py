"""What holds of modelled bytes for every kernel and every tile."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.cost.bind_kernel import extents
from explorer.cost.estimate import tasks
from explorer.cost.footprint import ALIGN_BYTES, footprint
from explorer.cost.traffic import Traffic, traffic
from explorer.devices.catalogue import device, device_names
from explorer.ir.affine import var
from explorer.ir.decisions.tiling import Micro, Tiling
from explorer.ir.dims import symbol
from explorer.ir.kernel import Axis, Compute, Kernel, Read, TensorSpec, apply, at
from tests.strategies.kernels import EXTENTS, chain, convolution, tiles, whole_kernels
from tests.welder import groups

EXTENT = st.sampled_from(EXTENTS)
LINES = st.sampled_from([1, 32, 64, 128])


def border_bytes(kernel: Kernel, line_bytes: int) -> int:
    sizes = (4 * prod(int(d) for d in kernel.shape(n)) for n in (*kernel.inputs, kernel.output))
    return sum(-(-size // line_bytes) * line_bytes for size in sizes)


@given(whole_kernels(), LINES)
def test_one_tile_moves_every_input_and_the_output_once(kernel: Kernel, line_bytes: int) -> None:
    found = traffic(kernel, {}, line_bytes=line_bytes)
    assert found.tiles == 1
    assert found.total_bytes == border_bytes(kernel, line_bytes)
    assert traffic(kernel, extents(kernel), line_bytes=line_bytes) == found


@given(whole_kernels(), LINES, st.data())
def test_no_tile_moves_less_than_everything_once(
    kernel: Kernel, line_bytes: int, data: st.DataObject
) -> None:
    found = traffic(kernel, data.draw(tiles(kernel)), line_bytes=line_bytes)
    assert found.total_bytes >= border_bytes(kernel, 1)


@given(whole_kernels(), LINES, st.data())
def test_a_tile_of_whole_smaller_ones_moves_no_more(
    kernel: Kernel, line_bytes: int, data: st.DataObject
) -> None:
    small: dict[str, int] = {}
    large: dict[str, int] = {}
    for name, extent in extents(kernel).items():
        large[name] = data.draw(
            st.sampled_from([n for n in range(1, extent + 1) if extent % n == 0])
        )
        small[name] = data.draw(
            st.sampled_from([n for n in range(1, extent + 1) if large[name] % n == 0])
        )
    before, after = (traffic(kernel, t, line_bytes=line_bytes) for t in (small, large))
    assert after.total_bytes <= before.total_bytes


@given(whole_kernels(), st.data(), st.integers(1, 14), st.integers(1, 4))
def test_the_register_tile_does_not_change_what_memory_moves(
    kernel: Kernel, data: st.DataObject, rows: int, vectors: int
) -> None:
    tile = tuple(data.draw(tiles(kernel)).items())
    found: list[Traffic] = []
    for tiling in (Tiling(tile), Tiling(tile, Micro(rows, vectors), pack=True, depth_block=8)):
        found.append(traffic(kernel, dict(tiling.tile)))
        assert found[-1].tiles == tasks(kernel, tiling, {})
    assert found[0] == found[1]


@given(EXTENT, EXTENT, EXTENT, st.data())
def test_welding_saves_one_write_and_one_read_of_what_lies_between(
    m: int, n: int, k: int, data: st.DataObject
) -> None:
    first, second, both = chain(m, n, k)
    tile = data.draw(tiles(both))
    apart = [traffic(kernel, tile) for kernel in (first, second)]
    saved = sum(t.total_bytes for t in apart) - traffic(both, tile).total_bytes
    assert saved == 2 * 4 * m * n


@given(whole_kernels(), st.data())
def test_a_larger_tile_never_needs_less_room(kernel: Kernel, data: st.DataObject) -> None:
    small = data.draw(tiles(kernel))
    large = {n: data.draw(st.integers(s, extents(kernel)[n])) for n, s in small.items()}
    assert footprint(kernel, small).bytes <= footprint(kernel, large).bytes


@given(whole_kernels(), st.data())
def test_room_is_between_the_most_that_lives_at_once_and_the_sum(
    kernel: Kernel, data: st.DataObject
) -> None:
    places = footprint(kernel, data.draw(tiles(kernel))).places
    steps = range(len(kernel.computes))
    alive = max(sum(p.bytes for p in places if p.first <= n <= p.last) for n in steps)
    top = max(p.offset + p.bytes for p in places)
    assert alive <= top <= sum(p.bytes for p in places)
    assert all(p.offset % ALIGN_BYTES == 0 == p.bytes % ALIGN_BYTES for p in places)


def table_rows(rows: int, count: int, width: int) -> Kernel:
    """`y[i, j] = table[index[i], j]`."""
    i, j = Axis("i", count), Axis("j", width)
    read = Read("table", (Read("index", (var("i"),)), var("j")))
    tensors = (
        TensorSpec("table", (rows, width)),
        TensorSpec("index", (count,), "int64"),
        TensorSpec("y", (count, width)),
    )
    return Kernel("gather", tensors, (Compute("y", (i, j), read),), ("table", "index"), ("y",))


def test_a_table_that_is_addressed_by_data_moves_the_rows_that_are_read() -> None:
    kernel = table_rows(30_000, 64, 384)
    found = {t.tensor: t for t in traffic(kernel, {"i": 8}).loaded}
    assert found["table"].bytes == 8 * 384 * 4
    assert found["table"].shape == (30_000, 384)
    assert found["index"].bytes == 8 * 8


def test_a_stride_over_pixels_moves_no_more_than_one_line_a_pixel() -> None:
    kernel = convolution(1, 16, 1, 2)
    assert traffic(kernel, {}).loaded[0].bytes == 8 * 8 * 4
    assert traffic(kernel, {}, line_bytes=64).loaded[0].bytes <= 16 * 16 * 4


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_symbols_take_the_values_of_the_binding(rows: int) -> None:
    i, j = Axis("i", symbol("batch")), Axis("j", 10)
    double = Compute("y", (i, j), apply("add", at("x", (i, j)), at("x", (i, j))))
    tensors = tuple(TensorSpec(name, (i.extent, j.extent)) for name in "xy")
    kernel = Kernel("double", tensors, (double,), ("x",), ("y",))
    sizes: Mapping[str, int] = {"batch": rows}
    found = traffic(kernel, {"i": 2}, sizes)
    assert found.tiles == -(-rows // 2)
    assert found.tile_bytes == 2 * min(2, rows) * 10 * 4


# Workgroups of WebGPU have 14 KiB.
@pytest.mark.parametrize("name", [n for n in device_names("gpu") if n != "webgpu"])
def test_the_papers_tile_fits_into_the_nearest_memory_of_every_gpu(name: str) -> None:
    """Welder's 16x128 tile of a product 64 deep and its rows takes 44 KiB."""
    found = footprint(groups.matmul(16, 64, 128), {})
    capacity = device(name).levels[0].capacity_bytes
    assert found.bytes == 45_056
    assert capacity is not None and found.bytes <= capacity
