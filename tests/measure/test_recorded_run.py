"""A recording is what was measured of the model that it says; of a file all is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.errors import BadOption, SnapshotError
from explorer.ir.decisions.tiling import thread_block
from explorer.measure.machine import machine
from explorer.measure.recorded_run import SHIPPED, read, shipped, write
from explorer.roller.blocks.candidates import block_problem
from explorer.roller.blocks.thread_block import launched
from tests.tile.gpu.products import A100, CASES, blocks

MODEL = "zoo:small_bert"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    c = explorer.compile(MODEL)
    path = tmp_path_factory.mktemp("runs") / "here.run.json"
    c.record(path, c.random_inputs(), runs=3)
    return path


def test_what_was_measured_is_read_again(file: Path, tmp_path: Path) -> None:
    c = explorer.compile(MODEL)
    found = c.record(tmp_path / "again.json", c.random_inputs(), runs=1)
    assert c.recorded(tmp_path / "again.json") == found
    assert found.wall.kind == "recorded" and found.words.startswith("recording: ")
    assert found.day == date.today().isoformat() and found.title.endswith(found.day)
    assert found.machine == str(machine()) and found.wall.bricks
    write(found, tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_bytes() == (tmp_path / "again.json").read_bytes()


@pytest.mark.exhaustive
def test_it_is_of_the_model_wherever_that_was_loaded(tmp_path: Path) -> None:
    """A file of another process: the constants are other objects than those that were measured."""
    name = "zoo:tiny_mobilenetv2"  # it has constants of more than 64 KiB
    c = explorer.compile(name)
    found = c.record(tmp_path / "run.json", c.random_inputs(), runs=1)
    assert explorer.compile(name, until="planned").recorded(tmp_path / "run.json") == found
    command = "import explorer, sys; explorer.compile(sys.argv[1], until='typed')"
    command += ".recorded(sys.argv[2])"
    subprocess.run([sys.executable, "-c", command, name, str(tmp_path / "run.json")], check=True)


def test_it_stands_beside_a_prediction_for_another_machine(file: Path) -> None:
    c = explorer.compile(MODEL, target="a100", until="planned")
    run = c.recorded(file)
    rows = run.beside(c.planned_wall())
    assert sum(r.recorded_us for r in rows) == pytest.approx(
        sum(b.end_us - b.start_us for b in run.wall.bricks)
    )
    assert any(r.recorded_us > 0 and r.predicted_us > 0 for r in rows)
    assert [r.recorded_us for r in rows] == sorted((r.recorded_us for r in rows), reverse=True)


def test_a_block_of_whole_pieces_of_matrices_comes_back(file: Path, tmp_path: Path) -> None:
    block = thread_block((("i", 32),), 64, (("i", 4),), (("k", 16),), (), ("i", "j", "k"))
    run = replace(read(file), blocks=(("y", (block, replace(block, matrix=()))),))
    write(run, tmp_path / "run.json")
    assert read(tmp_path / "run.json") == run


def test_one_of_another_model_is_refused(file: Path) -> None:
    with pytest.raises(BadOption, match="of another model than this one: of"):
        explorer.compile("zoo:small_lstm", until="planned").recorded(file)


def changed(found: Any, path: tuple[Any, ...], value: Any) -> str:
    at = found
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    return json.dumps(found)


BLOCK = {"threads": 1, "tile": [], "register": [], "shared": [], "parts": []}
BROKEN = [
    (("ironworks_recording",), 2, "not of version 1"),
    (("model",), 3, "model is a text"),
    (("machine",), "\x1b[2J", "machine is a text of at most 1000 printable characters"),
    (("device",), "\ud800", "device is a text"),
    (("policy",), "x" * 1001, "policy is a text"),
    (("units",), 0, "units is a whole number"),
    (("units",), True, "units is a whole number"),
    (("total_us",), -1, "total_us is a time"),
    (("total_us",), float("inf"), "total_us is a time"),
    (("total_us",), float("nan"), "total_us is a time"),
    (("bricks",), {}, "bricks is a list"),
    (("bricks", 0), [1, 2], "rows of 8"),
    (("bricks", 0, 0), 999, "a task's unit"),
    (("bricks", 0, 2), 1e14, "ends before it begins, or after"),
    (("bricks", 0, 3), -1, "a task's call"),
    (("bricks", 0, 5), 1.5, "a task is a whole number"),
    (("calls", 0, 1), [3], "calls have a name"),
    (("calls", 0, 0), "\ud800", "calls have a name"),
    (("gaps",), [[0, 0.0, 0.0, 99]], "a gap's cause"),
    (("sizes",), [["n", "x"]], "a size"),
    (("day",), "yesterday", "day is a date"),
    (("day",), 3, "day is a date"),
    (("blocks",), {}, "blocks is a list"),
    (("blocks",), [[3, []]], "blocks have the name of a call"),
    (("blocks",), [["y", [BLOCK] * 1000]], "a call has at most 16 blocks"),
    (("blocks",), [["y", [{}]]], "a block has threads, tile, register, shared, parts"),
    (("blocks",), [["y", [BLOCK | {"threads": 0}]]], "threads is a whole number"),
    (("blocks",), [["y", [BLOCK | {"tile": [["i", -1]]}]]], "a size of a block"),
    (("blocks",), [["y", [BLOCK | {"parts": [["i"]]}]]], "parts has rows of 2"),
    (("blocks",), [["y", [BLOCK | {"matrix": "ijk"}]]], "matrix is three axes, or none"),
    (("blocks",), [["y", [BLOCK | {"matrix": ["i", "j"]}]]], "matrix is three axes, or none"),
    (("blocks",), [["y", [BLOCK | {"matrix": ["i", "j", 3]}]]], "matrix is three axes, or none"),
]


@pytest.mark.parametrize(("path", "value", "why"), BROKEN)
def test_what_is_no_recording_is_told(
    file: Path, tmp_path: Path, path: tuple[Any, ...], value: Any, why: str
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(changed(json.loads(file.read_text()), path, value))
    with pytest.raises(SnapshotError, match=rf"broken\.json is no recording of a run: .*{why}"):
        read(broken)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a file without an end")
def test_a_file_without_an_end_is_not_read() -> None:
    with pytest.raises(SnapshotError, match="it is no file"):
        read(Path("/dev/zero"))


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, "\x00", '{"ironworks_recording": 1}'])
def test_a_file_of_something_else_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)
    for name in ("other.json", "absent.json"):
        with pytest.raises(SnapshotError, match="is no recording of a run"):
            read(tmp_path / name)


def test_what_ships_was_measured_on_a_gpu_and_is_of_the_model_that_there_is() -> None:
    found = {name: path for model in ("small_bert",) for name, path in shipped(model).items()}
    assert found and set(found.values()) == set(SHIPPED.glob("*.run.json"))
    c = explorer.compile(MODEL, target="h100", until="planned")
    assert c.recordings == tuple(found) == ("h200",)
    run = c.recorded("h200")
    assert run.machine.startswith("NVIDIA H200, ") and run.wall.kind == "recorded"
    planned = {b.call for b in c.planned_wall().bricks}
    assert {name for name, _ in run.blocks} == planned
    assert planned <= {row.call for row in run.beside(c.planned_wall()) if row.recorded_us > 0}
    assert explorer.compile("zoo:small_lstm", until="typed").recordings == ()


def test_on_a_gpu_a_program_is_planned_with_the_blocks_that_ran() -> None:
    c = explorer.compile(MODEL, target="h100", until="planned")
    run = c.recorded("h200")
    found, sizes = c.as_recorded(run), dict(run.sizes)
    assert found.chosen_blocks(sizes) == dict(run.blocks) != c.chosen_blocks(sizes)
    wall = found.planned_wall(sizes)
    assert wall.units == run.wall.units and len(wall.bricks) == len(run.wall.bricks)
    assert abs(wall.total_us / run.wall.total_us - 1) < 0.3
    longest = [row.call for row in run.beside(wall)][:4]
    assert {row.call for row in run.beside(wall)[:4] if row.predicted_us > 50} == set(longest)
    waves = replace(found.options.rammer, policy="op-by-op")  # of the same kernels: the same blocks
    assert found.with_options(rammer=waves).chosen_blocks(sizes) == dict(run.blocks)
    two = {"batch": 2}
    assert found.chosen_blocks(two) == c.of_blocks(run.wall.units).chosen_blocks(two)


def test_blocks_that_a_kernel_cannot_have_are_left_out() -> None:
    """They are of another program, or a file is damaged: the others stay."""
    c = explorer.compile(MODEL, target="h100", until="planned")
    run = c.recorded("h200")
    name, (block, *_) = run.blocks[0]
    for changed in (
        replace(block, threads=4096),
        replace(block, tile=(("z", 1),)),
        replace(block, tile=((block.tile[0][0], 1 << 40),)),
        replace(block, register=tuple((a, 64) for a, _ in block.register)),
        replace(block, matrix=("z", "z", "z")),
    ):
        broken = replace(run, blocks=((name, (changed,)), *run.blocks[1:]))
        found = c.as_recorded(broken).chosen_blocks(dict(run.sizes))
        assert found[name] != (changed,)
        assert {n: found[n] for n, _ in run.blocks[1:]} == dict(run.blocks[1:])


@pytest.mark.parametrize("sizes", [[], [["zzz", 1]]])
def test_one_that_does_not_say_its_sizes_is_told(tmp_path: Path, sizes: list[Any]) -> None:
    c = explorer.compile(MODEL, target="h100", until="planned")
    run = c.recorded("h200")
    damaged = replace(run, sizes=tuple((name, n) for name, n in sizes))
    write(damaged, tmp_path / "run.json")
    with pytest.raises(SnapshotError, match="does not say what batch was"):
        c.recorded(tmp_path / "run.json")
    assert c.as_recorded(damaged).planned_wall().total_us > 0


def test_every_block_of_pieces_that_is_weighed_could_be() -> None:
    """However little of a piece is there."""
    for c in CASES:
        kernel = launched(c.kernel, c.sizes)
        found = blocks(kernel)
        assert found and not any(block_problem(b, kernel, A100) for b in found)
