"""Roller's pictures: panels, staircase, waves and roofline as rows; their drawings in bounds."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

import explorer
import explorer.np as enp
import widgets
from explorer.codegen.cuda.bank_accesses import BlockAccesses, SharedAccess, accesses
from explorer.codegen.cuda.build import print_tile_program
from explorer.compiler.options import Options
from explorer.devices.catalogue import device as data_sheet
from explorer.devices.hardware import Options as Hardware
from explorer.errors import BadOption
from explorer.ir.decisions.tiling import Tiling
from explorer.measure.compare import Measurement
from explorer.plain_text import counted
from explorer.roller.construct.steps import Construction
from explorer.tile.gpu.rewrites import REWRITES as BLOCK_REWRITES
from explorer.tile.rewrites import REWRITES
from tests.widgets import made_by_hand as hand
from tests.widgets.drawn_geometry import SIZES, outside, problems
from tests.widgets.of_family import of_family
from widgets.draw.table import Mark, sentence_text
from widgets.model.house import House, read
from widgets.model.knobs import Setting, first_setting
from widgets.model.picture import Times, View
from widgets.roller import (
    bank_map,
    data_tiles,
    memory_lines,
    rewrites,
    roofline,
    scale_out,
    staircase,
    staircase_picture,
    tile_panels,
)
from widgets.roller import view as roller_view
from widgets.roller.data_tiles import Storage
from widgets.roller.staircase_picture import figure
from widgets.roller.tile_panels import storage_words
from widgets.roller.tiled_kernel import TiledKernel, construction_choices
from widgets.roller.view import order
from widgets.rooms import gallery
from widgets.session.answers import PictureContext
from widgets.session.session import Session

SHEETS = ("v100", "mi50", "a100", "h100")


@explorer.trace
def square(a: explorer.tensor("float32", 4096, 4096), b: explorer.tensor("float32", 4096, 4096)):  # type: ignore[no-untyped-def]
    return enp.matmul(a, b)


@dataclass(frozen=True)
class OnShow:
    """A compilation that no wall was planned for."""

    now: Setting
    house: House
    view: View = View()

    def times(self, binding: str) -> Times:
        return {}


PAPERS = Options(hardware=Hardware((("phase_ns", 0.0),)))


@cache
def golden() -> TiledKernel:
    """The 4096 x 4096 x 4096 product on a V100, as the paper's kernels by hand take it: without
    what ours take between phases.
    """
    c = explorer.compile(explorer.load(square), target="v100", until="rolled", options=PAPERS)
    found = roller_view.tiled_kernel(OnShow(first_setting(c), read(c)), "")
    assert found is not None
    return found


def results(rolled: TiledKernel) -> TiledKernel:
    """With what Roller's construction found to choose from, as on a device of another kind."""
    return replace(rolled, choices=construction_choices(rolled.construction, rolled.device), rank=0)


@pytest.fixture(scope="module")
def session() -> Session:
    return Session(hand.HandMade(), compare=hand.compare)


def seen(session: Session, op: str, device: str = "", rank: int = -1) -> TiledKernel:
    found = roller_view.tiled_kernel(PictureContext(session, View(device, rank)), op)
    assert found is not None
    return found


def every(session: Session) -> Iterator[TiledKernel]:
    yield golden()
    for op in ("conv", "fc", "softmax"):
        for device in ("", *SHEETS):
            yield seen(session, op, device)


def test_the_tiles_of_the_papers_product_are_drawn_as_they_are_loaded() -> None:
    rows = tile_panels.data(results(golden()))
    shared, registers = rows.levels
    assert dict(shared.axes) == {"i": 128, "j": 64, "k": 8}
    assert dict(registers.axes) == {"i": 8, "j": 4, "k": 1}
    a, b, y = shared.tiles
    assert (a.box, b.box, y.box) == ((128, 8), (8, 64), (128, 64))
    assert (a.line_bytes, a.lines, a.useful) == (32, 128, 1.0)
    assert (b.lines, y.lines) == (64, 1024)
    assert all(used <= most for _, used, most in (*shared.rooms, *registers.rooms))


def test_padding_ends_the_conflicts_that_are_counted_without_it() -> None:
    stored = {s.tensor: s for s in tile_panels.data(results(golden())).levels[0].stored}
    a = stored["a"]
    assert a.unpadded == 2 and a.degree == 1 and a.padding == 25
    banks = [a.place(row, 0, a.padding) for row in range(a.read_rows)]
    assert len(set(banks)) == len(banks)
    assert len({a.place(row, 0, 0) for row in range(a.read_rows)}) == len(banks) // 2
    assert "2 of one bank without Roller's padding" in storage_words(a)


def test_three_rows_of_four_banks_take_one_of_padding() -> None:
    bare = Storage("x", "L1", "bank", 4, 1, 3, 4, 0, 3, 1, 1, 3, 3)
    assert [bare.place(row, 0, 0) for row in range(3)] == [0, 0, 0]
    assert [bare.place(row, 0, 1) for row in range(3)] == [0, 1, 2]
    assert bare.conflict and not replace(bare, padding=1, degree=1).conflict


@pytest.mark.exhaustive
def test_a_tile_that_does_not_begin_on_a_line_moves_more_than_it_needs(session: Session) -> None:
    for rolled in every(session):
        for level in tile_panels.data(rolled).levels:
            for t in level.tiles:
                assert 0 < t.used_bytes <= t.lines * t.line_bytes
                assert all(b <= n for b, n in zip(t.box, t.shape, strict=True))
                p = t.plane
                assert p.top + p.tall <= p.rows and p.left + p.wide <= p.columns


def test_the_golden_construction_has_its_ten_results_in_order() -> None:
    rows = staircase.data(results(golden()))
    assert rows.visited == 47 and rows.built == 10
    ranks = [s.rank for s in rows.steps if s.rank >= 0]
    assert ranks == list(range(10))
    first = next(s for s in rows.steps if s.rank == 0)
    assert first.tile == "i=128 j=64 k=8" and first.ratio < 1
    assert rows.paths[0].startswith("registers: i=1 j=1 k=1, i 1 → 2, j 1 → 2")
    assert [c.label.split(",")[0] for c in rows.choices[:3]] == [
        "i=128 j=64 k=8",
        "i=128 j=128 k=8",
        "i=128 j=128 k=32",
    ]


def test_a_level_is_left_where_computing_takes_longer_than_loading(session: Session) -> None:
    rows = staircase.data(golden())
    for s in rows.steps:
        if s.verdict == "compute bound: one level down" or s.verdict == "result":
            assert s.ratio < 1
        if s.verdict == "does not fit":
            assert s.share > 1 and s.reason
        said = staircase.sentence(s, rows.score)
        assert s.level_name in said and s.tile in said


def test_the_results_of_the_staircase_are_taken_where_they_are_choices() -> None:
    rows = staircase.data(results(golden()))
    tree = ElementTree.fromstring(figure(rows).text())
    ranks = [g.get("data-rank") for g in tree.iter() if g.get("data-rank")]
    assert sorted(ranks, key=int) == [str(n) for n in range(10) for _ in "ab"]  # mark and list
    rows = staircase.data(golden())  # thread blocks stand before them
    blocks = golden().blocks
    body = figure(rows).body
    assert [rows.number(0), rows.on_show] == [str(blocks + 1), -1]
    assert f'data-rank="{blocks}"' in body and f">{blocks + 1}</text>" in body


def test_results_that_are_no_choices_have_letters(session: Session) -> None:
    rows = staircase.data(seen(session, "fc"))
    assert rows.own and [rows.number(n) for n in range(3)] == ["a", "b", "c"]
    body = figure(rows).body
    assert ">a</text>" in body and rows.on_show == -1


def test_the_axes_of_a_staircase_have_words_and_decimal_ticks(session: Session) -> None:
    for rolled in every(session):
        body = figure(staircase.data(rolled)).body
        assert "share of the tightest limit" in body and ">100 %</text>" in body
        assert "loading time over computing time" in body and ">1×</text>" in body


def test_axes_that_were_fused_are_named_as_their_product() -> None:
    @explorer.trace
    def batched(x):  # type: ignore[no-untyped-def]
        return enp.matmul(enp.exp(x), np.ones((96, 96), np.float32))

    c = explorer.compile(batched(x=explorer.tensor("float32", 4, 63, 96)), until="rolled")
    rolled = roller_view.tiled_kernel(OnShow(first_setting(c), read(c)), "")
    assert rolled is not None
    rows = staircase.data(rolled)
    fused = {s.axis for s in rows.steps if "·" in s.axis}
    body = figure(rows).body
    assert fused and all(f">{axis}</text>" in body for axis in fused) and "*" not in body


@pytest.mark.parametrize("size", SIZES)
def test_the_staircase_is_drawn_for_the_pixels_of_its_page(
    session: Session, size: tuple[int, int]
) -> None:
    for rolled in every(session):
        rows = staircase.data(rolled)
        drawn = figure(rows, size)
        assert (drawn.width, drawn.height) == size
        assert problems(drawn) == [], (rolled.device.name, rolled.binding)


def test_waves_hold_every_copy_and_the_last_one_says_what_is_idle() -> None:
    rows = scale_out.data(results(golden()))
    for w in rows.waves:
        assert sum(w.copies(n) for n in range(w.waves)) == w.grid
    assert rows.waves[0].grid == 2048 and rows.waves[0].waves == 26
    assert "the last fills 48 of 80; 1.5% of their time is idle" in scale_out.caption(rows)


def test_a_small_operator_was_cut_finer_and_says_so(session: Session) -> None:
    rows = scale_out.data(results(seen(session, "fc", "v100")))
    assert any("cut finer" in note for note in rows.notes)


def test_the_roofline_bounds_every_tile_of_a_data_sheet() -> None:
    rows = roofline.data(results(golden()))
    peak = rows.peaks[-1][1]
    assert peak == pytest.approx(data_sheet("v100").sustained_gflops)
    for p in rows.points:
        assert p.modelled <= min(peak, p.bound) * 1.001 and p.measured == 0
    assert rows.errors == () and rows.error == 0


def test_modelled_over_measured_is_a_geometric_mean(session: Session) -> None:
    rolled = seen(session, "conv")
    times = [Measurement(c.modelled_us * f, 1, 2, 60) for c, f in zip(rolled.choices, (0.5, 2.0))]
    choices = tuple(replace(c, measured=t) for c, t in zip(rolled.choices, times))
    rows = roofline.data(replace(rolled, choices=choices))
    assert rows.errors == pytest.approx((2.0, 0.5)) and rows.error == pytest.approx(1.0)


def test_this_machine_has_a_roof_for_one_unit_and_for_all(session: Session) -> None:
    rows = roofline.data(seen(session, "fc"))
    assert {(r.level, r.units) for r in rows.roofs} == {
        (level, units) for level in ("L1", "L2", "L3", "DRAM") for units in (1, 2)
    }


def test_lines_that_are_moved_in_vain_are_told(session: Session) -> None:
    rows = tile_panels.data(seen(session, "conv", "v100"))
    tiles = [t for p in rows.levels if p.level != "registers" for t in p.tiles]
    body = memory_lines.figure(rows).body
    for t in tiles:
        told = f"{t.lines:,} lines of {t.line_bytes} B, {100 * t.useful:.0f} % needed"
        assert told in body or t.packed or t.lines == 1
    worst = min(tiles, key=lambda t: t.useful)
    first = sentence_text(memory_lines.see(rows)[0])
    if worst.useful < 0.99:
        assert first == f"{worst.tensor} needs {100 * worst.useful:.0f} % of what it moves."
    else:
        assert first == "All that is moved is needed."
    assert 'fill="url(#p-g-imbalance)"' in body


def test_a_tile_or_a_device_that_there_is_not_is_refused(session: Session) -> None:
    with pytest.raises(BadOption, match="has no tile number 100"):
        seen(session, "conv", rank=99)
    with pytest.raises(explorer.errors.NoSuchDevice, match="no data sheet for 'v1000'"):
        seen(session, "conv", "v1000")


def test_panels_show_each_memory_with_the_part_that_goes_nearer() -> None:
    far, shared, registers = tile_panels.data(results(golden())).frames
    assert [f.level for f in (far, shared, registers)] == ["DRAM", "shared memory", "registers"]
    assert all(f.product for f in (far, shared, registers))
    a, b, c = far.operands
    assert (a.letter, b.letter, c.letter) == ("A", "B", "C")
    assert (a.tall, b.wide, a.step, b.step) == (128, 64, 8, 8)  # a step of the depth at a time
    assert (c.rows, c.columns, c.tall, c.wide) == (4096, 4096, 128, 64)
    assert far.moved_bytes == 4 * (128 * 8 + 8 * 64) and far.moved == "a step"
    assert (shared.operands[2].rows, shared.operands[2].columns) == (128, 64)
    assert (registers.operands[2].rows, registers.operands[2].columns) == (8, 4)
    assert shared.room.used <= shared.room.capacity == 48 << 10


def test_the_traffic_falls_along_the_staircase_and_every_tile_is_on_it() -> None:
    rolled = results(golden())
    bars = tile_panels.data(rolled).bars
    moved = [bar.moved_bytes for bar in bars]
    assert moved == sorted(moved, reverse=True) and len(set(moved)) > 1
    assert sorted(order(bars)) == list(range(len(rolled.choices)))
    n, tile = 4096, rolled.choices[0].levels[0].tile
    rows, columns = tile.spatial
    mine = next(bar for bar in bars if 0 in bar.ranks)
    assert mine.moved_bytes == 4 * (n * n * n // columns + n * n * n // rows + n * n)


def test_the_sentences_are_counted_from_what_is_drawn() -> None:
    rolled = results(golden())
    rows = tile_panels.data(rolled)
    tile, filled, banks = map(sentence_text, tile_panels.see(rows))
    assert tile == "A 128×64 tile of C is computed at a time."
    assert filled.startswith("Its operands fill ") and filled.endswith("KiB of shared memory.")
    assert banks == "8 reads hit 8 banks: no conflict."
    body = tile_panels.figure(rows).body
    for sentence in tile_panels.see(rows):
        for mark in (part for part in sentence if isinstance(part, Mark)):
            lit = [keys.split() for keys in re.findall(r'data-k="([^"]*)"', body)]
            for way in mark.lights.split("|"):
                assert any(set(way.split()) <= set(keys) for keys in lit), way


def test_a_transposed_right_operand_is_a_product_too() -> None:
    @explorer.trace
    def rows_by_rows(a, b):  # type: ignore[no-untyped-def]
        return enp.matmul(a, enp.transpose(b, (1, 0)))

    both = {"a": explorer.tensor("float32", 64, 32), "b": explorer.tensor("float32", 96, 32)}
    c = explorer.compile(rows_by_rows(**both), until="rolled")
    rolled = roller_view.tiled_kernel(OnShow(first_setting(c), read(c)), "")
    assert rolled is not None and rolled.chosen is not None
    product = data_tiles.product_of(rolled.chosen.expression)
    assert product is not None and product.sizes(rolled.chosen.expression.extents) == (64, 96, 32)


@pytest.mark.parametrize("size", SIZES)
def test_tiles_are_drawn_for_the_pixels_of_their_page(
    session: Session, size: tuple[int, int]
) -> None:
    for rolled in every(session):
        for rank in {0, len(rolled.choices) - 1}:
            rows = tile_panels.data(replace(rolled, rank=rank))
            figure = tile_panels.figure(rows, size)
            assert (figure.width, figure.height) == size
            assert problems(figure) == [], (rolled.device.name, rolled.binding, rank)


def test_the_scrubber_goes_through_the_tiles_along_their_staircase(session: Session) -> None:
    op = session.house.order["conv"]
    controls = session.answer("picture", {"room": "roller", "op": op})["controls"]
    assert controls["play"] == "rank" and sorted(controls["order"]) == [
        *range(len(controls["tiles"]))
    ]


def test_before_roller_has_run_a_room_says_so() -> None:
    class Early(hand.HandMade):
        @property
        def program(self) -> hand.Program:
            return hand.WELDED

    early = Session(Early(), compare=hand.compare)
    for name in of_family("tiles"):
        figure, table = gallery.picture(name, early)
        assert "Roller has tiled nothing" in figure.text() and not table.rows


@pytest.mark.exhaustive
def test_no_text_leaves_its_drawing(session: Session) -> None:
    for rolled in every(session):
        for name, (data, draw) in ROOMS.items():
            assert outside(draw(data(rolled))) == [], (name, rolled.device.name, rolled.binding)


ROOMS = {
    "roller": (tile_panels.data, tile_panels.figure),
    "staircase": (staircase.data, staircase_picture.figure),
    "waves": (scale_out.data, scale_out.figure),
    "tile_program": (rewrites.data, lambda rows: rewrites.figure(rows, SIZES[0])),
    "banks": (bank_map.data, lambda rows: bank_map.figure(rows, SIZES[0])),
}


@pytest.mark.exhaustive
def test_pictures_stay_small(session: Session) -> None:
    for rolled in every(session):
        for name, (data, draw) in ROOMS.items():
            assert len(draw(data(rolled)).text()) < 60_000, name


def test_a_construction_without_results_is_drawn(session: Session) -> None:
    rolled = seen(session, "conv", "v100")
    c: Construction = replace(rolled.construction, results=(), steps=(), rounds=())
    bare = replace(rolled, construction=c, choices=(), rank=0)
    for name, (data, draw) in ROOMS.items():
        assert draw(data(bare)).title, name


def test_each_rewrite_of_a_tile_program_is_a_step_with_what_it_changed(session: Session) -> None:
    rows = rewrites.data(seen(session, "conv"))
    assert [name for name, _ in rows.steps] == ["lower", *(name for name, _ in REWRITES)]
    program: list[str] = []
    for (
        _,
        lines,
    ) in rows.steps:  # each step's lines without the new ones are those of the one before
        assert [x for mark, x in lines if mark != "+"] == program or not program
        program = [x for mark, x in lines if mark != "-"]
    for size in (*SIZES, (280, 240), (1900, 1000)):
        assert rewrites.figure(rows, size).text().count("data-step=") == len(rows.steps)
        for at in range(len(rows.steps)):
            assert problems(rewrites.figure(rows, size, at)) == []
    did = [n for n, (_, lines) in enumerate(rows.steps) if n and rewrites.has_changes(lines)]
    first, second = map(sentence_text, rewrites.see(rows))
    assert first.startswith(f"{len(did)} of {len(rows.steps) - 1} rewrites change")
    assert second == f"{len(rows.steps[0][1])} lines become {len(program)}."
    words = rewrites.table(rows)
    assert {name for name, *_ in words.rows} <= {name for name, _ in rows.steps}
    assert "rewrites, changed by" in rewrites.caption(rows)


def test_a_long_line_of_a_tile_program_is_wrapped_to_its_end(session: Session) -> None:
    words = tuple(f"word{n}" for n in range(200))
    rows = rewrites.data(seen(session, "conv"))
    long = replace(rows, steps=(("plain", ((" ", "    " + " ".join(words)),)),))
    drawn = rewrites.figure(long, (720, 900)).text().replace("\u00a0", " ")
    assert all(f"{word} " in drawn or f"{word}<" in drawn for word in words)
    assert problems(rewrites.figure(long, (720, 900))) == []
    assert "and 1 more line" in rewrites.figure(long, (380, 300)).text()


def test_a_gpus_tile_is_a_thread_block_that_would_be_printed(session: Session) -> None:
    rolled = seen(session, "conv", "v100")
    rows = rewrites.data(rolled)
    assert [name for name, _ in rows.steps] == ["lower", *(name for name, _ in BLOCK_REWRITES)]
    said = " ".join(map(sentence_text, rewrites.see(rows)))
    assert "a prediction" in rewrites.caption(rows) and "a prediction" in said
    last = [line for mark, line in rows.steps[-1][1] if mark != "-"]
    assert any("on" in x and "threads:" in x for x in last) and "sync" in str(last)
    none = rewrites.data(replace(rolled, choices=()))
    assert not none.steps and "no tile of" in rewrites.caption(none)


def test_a_tile_in_use_is_the_one_on_show(session: Session) -> None:
    rolled = seen(session, "conv")
    assert rolled.chosen is not None and rolled.chosen.tiling == hand.CONV_TILE
    assert isinstance(rolled.chosen.tiling, Tiling)


@explorer.trace
def odd(a: explorer.tensor("float32", "n", 17), b: explorer.tensor("float32", 17, 13)):  # type: ignore[no-untyped-def]
    return enp.matmul(a, b)


def test_a_block_whose_threads_read_for_themselves_is_in_no_shared_memory() -> None:
    @explorer.trace
    def row(x, w):  # type: ignore[no-untyped-def]
        return enp.maximum(x @ w, 0)  # what lies between is in shared memory

    c = explorer.compile(
        row(x=explorer.tensor("float32", 1, 32), w=explorer.tensor("float32", 32, 32)),
        target="v100",
        until="rolled",
    )
    rolled = roller_view.tiled_kernel(OnShow(first_setting(c), read(c)), "")
    assert rolled is not None
    homes = {x.block.threads: x.levels[0].name for x in rolled.choices if x.block}
    assert homes[1] == "a thread block" and "shared memory" in homes.values()


@pytest.mark.parametrize("rows", [0, 1, 7, 10007])
def test_odd_sizes_are_drawn(rows: int) -> None:
    c = explorer.compile(explorer.load(odd), until="rolled")
    now = first_setting(c, {"n": rows})
    for device in ("", "v100"):
        rolled = roller_view.tiled_kernel(OnShow(now, read(c), View(device)), "")
        assert rolled is not None
        for data, draw in ROOMS.values():
            assert outside(draw(data(rolled))) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["cpu", "cuda-sim"])
def test_every_rewrite_of_a_tile_program_says_where_it_is_written(target: str) -> None:
    c = explorer.compile("zoo:tiny_bert", target=target, until="planned")
    rows = widgets.data(c, "tile_program")
    places = [rewrites.rule_of_step(name) for name, _ in rows.steps[1:]]
    assert len(places) > 4 and all(p and p.file.startswith("explorer/tile/") for p in places)
    assert all(p.says and p.place in rewrites.figure(rows, SIZES[0]).body for p in places if p)


def test_threads_over_banks_are_the_accesses_of_the_block_on_show(session: Session) -> None:
    rolled = seen(session, "conv", "a100")
    rows = bank_map.data(rolled)
    found = accesses(print_tile_program(rewrites.steps_of(rolled)[-1][1]))
    assert rows.threads == found.threads and sum(a.places for a in rows.accesses) == len(
        found.accesses
    )
    assert sum(a.times for a in rows.accesses) == sum(a.times for a in found.accesses)
    for a in rows.accesses:
        high = [max(len(words) for _, words in banks) for _, banks in a.parts]
        assert sum(high) == a.cycles and len(high) == a.least  # what is drawn is what it waits
        asked = {lane for _, banks in a.parts for _, ws in banks for _, ls in ws for lane in ls}
        assert asked <= set(range(32 * a.warp, 32 * a.warp + 32))
        drawn = bank_map.words(a)
        assert ("no conflict" in drawn) != a.conflict and f"{a.cycles} cycle" in drawn
    (made,) = rows.outputs
    assert {*made.owner.flat} <= {-1, *range(rows.threads)} and made.points(0) > 0
    steps = len(rows.accesses) + len(rows.outputs)
    for size in (*SIZES, (280, 240), (1900, 1000)):
        for at in range(-1, steps):
            drawn = bank_map.figure(rows, size, at)
            assert drawn.text().count("data-step=") == steps and problems(drawn) == []
    first, *others = map(sentence_text, bank_map.see(rows))
    waits = [a for a in rows.accesses if a.conflict]
    assert first.startswith(f"{len(rows.accesses)} access") and (
        f", {len(waits)} wait" in first
    ) == any(waits)
    own = counted(made.points(0), "element")
    assert others[-1] == f"Thread 0 makes {own} of {made.owner.size:,}."
    own = bank_map.data(seen(session, "conv"))
    assert not own.accesses and "choose a GPU" in bank_map.caption(own)


def test_what_is_read_and_what_is_written_are_apart_where_both_ask_alike() -> None:
    read = SharedAccess(0, 1, "tile", False, 4, np.arange(32)[:, None], (1,), (1,), 1)
    found = (read, replace(read, line=2, store=True), replace(read, line=3))
    asks = bank_map._merge_accesses(BlockAccesses(32, found, {}, True, ()))
    assert [(a.store, a.places) for a in asks] == [(False, 2), (True, 1)]


def test_the_inspector_of_a_gpu_tells_of_thread_blocks_and_the_knob_sets_them() -> None:
    session = widgets.explore("zoo:tiny_skip", target="h100").session
    wall = session.walls.planned
    assert wall is not None
    op = session.house.order[wall.calls[0].ops[0]]
    session.answer("focus", {"op": op})
    tile = session.answer("operator", {"op": op})["tile"]
    assert tile["axes"] == "thread block" and "The wall took thread blocks of " in tile["sentence"]
    taken = [c for c in tile["candidates"] if c["on"]]
    assert taken and taken[0]["note"] == "chosen" and taken[0]["label"] in tile["sentence"]
    for c in tile["candidates"]:
        assert c["us"] == pytest.approx(sum(us for _, us in c["terms"]))
    other = next(c for c in tile["candidates"] if not c["on"])
    session.answer("turn", {"knob": "tile", "index": other["index"]})
    knob = next(k for k in session.knobs() if k.name == "tile")
    assert knob.labels[0] == "by the wall" and knob.labels[knob.now] == other["label"]
    found = session.answer("operator", {"op": op})["tile"]
    assert f"You set thread blocks of {other['label']}" in found["sentence"]
    assert [c["label"] for c in found["candidates"] if c["on"]] == [other["label"]]
    session.answer("undo", {})
    assert session.answer("operator", {"op": op})["tile"] == tile
    form = session.answer("tuning", {"op": op})
    assert "h100 is a data sheet" in form["refusal"] and "fields" not in form
    for question in ("judge", "take"):
        with pytest.raises(BadOption, match="h100 runs thread blocks, and none is made of a tile"):
            session.answer(question, {"op": op, "fields": {}})


def test_a_gpus_tiles_are_the_thread_blocks_that_its_wall_chooses_from(session: Session) -> None:
    rolled = golden()
    blocks = [c.block for c in rolled.choices[: rolled.blocks]]
    assert all(c.block is None for c in rolled.choices[rolled.blocks :])
    assert [c.label for c in rolled.choices[rolled.blocks :]] == [
        c.label for c in results(rolled).choices
    ]
    (decision,) = explorer.compile(
        explorer.load(square), target="v100", until="rolled", options=PAPERS
    ).program.decisions.tilings
    assert blocks == [c.value for c in decision.candidates][: len(blocks)] and len(blocks) > 3
    assert rolled.rank == blocks.index(decision.chosen)
    shared, registers = tile_panels.data(rolled).levels
    assert dict(shared.axes) == {"i": 128, "j": 64, "k": 8}  # as the paper has it
    assert dict(registers.axes) == {"i": 8, "j": 4, "k": 1} and not shared.stored
    for c in rolled.choices[: rolled.blocks]:
        assert c.block is not None and c.levels[0].rooms[-1].used == c.block.threads
        assert all(room.fits for level in c.levels for room in level.rooms)
    for device in SHEETS:
        there = seen(session, "conv", device)
        assert there.blocks and there.chosen and there.chosen.block and there.chosen.note
