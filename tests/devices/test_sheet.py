"""A data sheet of one's own is a device, and one that is wrong says where."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import explorer
from explorer import cli
from explorer.devices.catalogue import SHEETS, device
from explorer.devices.sheet import LEVELS, LIMITS, NUMBERS, OF_ALL_UNITS, read_sheet
from explorer.errors import BadOption, BadSheet, NoSuchDevice

MODEL = str(Path(__file__).parents[1] / "data" / "tiny_skip.onnx")
MINE = """
name = "lecture"
title = "A machine drawn on a blackboard"
kind = "gpu"
units = { value = 4, unit = "cores", source = "the blackboard" }
lanes = { value = 8, unit = "threads", source = "the blackboard" }
registers = { value = 64, unit = "registers a thread", source = "the blackboard" }
fma_per_cycle = { value = 1, unit = "multiply-adds of all lanes", source = "the blackboard" }
clock_ghz = { value = 1.0, unit = "GHz", source = "the blackboard" }
launch_us = { value = 1.0, unit = "us", source = "the blackboard" }
barrier_us = { value = 1.0, unit = "us", source = "the blackboard" }
task_ns = { value = 100.0, unit = "ns", source = "the blackboard" }
banks = { value = 32, unit = "banks", source = "the blackboard" }
block_threads = { value = 128, unit = "threads a block", source = "the blackboard" }
transaction_bytes = { value = 32, unit = "bytes", source = "the blackboard" }
block_shared_bytes = { value = 16384, unit = "bytes a block", source = "the blackboard" }
[[levels]]
name = "L1"
shared = false
capacity = { value = 16384, unit = "bytes a unit", source = "the blackboard" }
bandwidth = { value = 400, unit = "GB/s, all units together", source = "the blackboard" }
line = { value = 32, unit = "bytes", source = "the blackboard" }
[[levels]]
name = "DRAM"
shared = true
bandwidth = { value = 40, unit = "GB/s, all units together", source = "the blackboard" }
line = { value = 64, unit = "bytes", source = "the blackboard" }
"""


@pytest.fixture
def sheet(tmp_path: Path) -> Callable[..., str]:
    def written(text: str | bytes = MINE, name: str = "lecture.toml") -> str:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return written


def test_a_cache_has_the_ways_of_its_sheet_else_sets_of_a_page(sheet: Callable[..., str]) -> None:
    line = 'line = { value = 32, unit = "bytes", source = "the blackboard" }'
    ways = 'ways = { value = 8, unit = "lines a set", source = "the blackboard" }'
    told = explorer.device(sheet(MINE.replace(line, f"{line}\n{ways}", 1)))
    silent = explorer.device(sheet())
    assert (told.ways(told.levels[0]), silent.ways(silent.levels[0])) == (8, 4)
    assert ("L1 ways", "lines a set: the blackboard") in told.sources


def test_a_sheet_in_a_file_is_a_target(sheet: Callable[..., str]) -> None:
    found = explorer.device(sheet())
    assert (found.name, found.units, found.level("DRAM").alone_gb_per_s) == ("lecture", 4, 10)
    for target in (sheet(), Path(sheet()), found):
        c = explorer.compile(MODEL, target=target, until="PLANNED")
        assert c.device == found and c.planned_wall().bricks


SLOWER = """
name = "v100-slow"
title = "A slower V100"
like = "v100"
clock_ghz = { value = 1.2, unit = "GHz", source = "what if?" }
"""


HALF = """
name = "v100-half"
title = "Half a V100"
like = "v100"
units = { value = 40, unit = "units", source = "what if?" }
"""


def test_units_of_half_a_gpu_are_no_faster(sheet: Callable[..., str]) -> None:
    """By a sheet, or by a device with other units."""
    v100 = explorer.device("v100")
    for half in (explorer.device(sheet(HALF)), replace(v100, units=40)):
        assert half.reached_gflops_per_unit == pytest.approx(v100.reached_gflops_per_unit)
        assert half.sustained_gflops == pytest.approx(v100.sustained_gflops / 2)
    wrong = HALF.replace("value = 40", 'value = "x"')
    with pytest.raises(BadSheet, match="units"):
        explorer.device(sheet(wrong))


def test_a_sheet_says_what_is_different_from_one_that_ships(sheet: Callable[..., str]) -> None:
    found, v100 = explorer.device(sheet(SLOWER)), explorer.device("v100")
    assert (found.name, found.clock_ghz, found.levels) == ("v100-slow", 1.2, v100.levels)
    for like in ('"v1000"', '"../v100"', "3", "[]"):
        with pytest.raises(BadSheet, match="like is one of a100"):
            explorer.device(sheet(SLOWER.replace('"v100"', like)))
    with pytest.raises(BadSheet, match="name is a short word"):
        explorer.device(sheet('like = "v100"'))


def test_a_sheet_that_was_edited_is_read_again(sheet: Callable[..., str]) -> None:
    assert explorer.device(sheet()).units == 4
    assert explorer.device(sheet(MINE.replace("value = 4,", "value = 6,"))).units == 6


def test_a_shell_takes_the_path_of_a_sheet(
    sheet: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compile", MODEL, "--target", sheet(), "--until", "rolled"]) == 0
    assert "tiny_skip on lecture, rolled" in capsys.readouterr().out
    broken = sheet(MINE.replace("banks =", "bancs ="), "broken.toml")
    assert cli.main(["compile", MODEL, "--target", broken]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "broken.toml: nothing is known as 'bancs'" in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('unit = "GHz"', 'unit = "MHz"', "clock_ghz: it is in GHz, and the sheet says 'MHz'"),
        ("value = 1.0, unit = \"GHz\"", 'unit = "GHz"', "from 1e-06 to 100, found nothing"),
        ("value = 4,", "value = 0,", "units: it is a whole number from 1 to 65,536, found 0"),
        ("value = 4,", "value = 4.5,", "units: it is a whole number"),
        ("value = 4,", "value = true,", "found True"),
        ("value = 4,", "value = 99999999999999999999999,", "found 99999999999999999999999"),
        ("value = 4,", f"value = 1{'0' * 4000},", "found a number of 13288 bits"),
        ("value = 1.0, unit = \"GHz\"", 'value = nan, unit = "GHz"', "found nan"),
        ("value = 1.0, unit = \"GHz\"", 'value = inf, unit = "GHz"', "found inf"),
        ("value = 400", "value = -400", "level 1: bandwidth: it is a number"),
        ("GB/s, all units together", "GB/s a unit", "it is in 'GB/s, all units together', not"),
        ("bytes a unit", "KiB a unit", "capacity: it is in bytes"),
        (', source = "the blackboard"', "", "source is at most 300 printable characters"),
        ("the blackboard", "a\\u001b[31m", "source is at most 300 printable characters"),
        ("the blackboard", "x" * 301, "source is at most 300 printable characters"),
        ('kind = "gpu"', 'kind = "tpu"', "kind is 'cpu' or 'gpu', found 'tpu'"),
        ("value = 400", "value = 0.001", "level 1: bandwidth: less than 0.0005 GB/s are left"),
        ('kind = "gpu"', "", "kind is 'cpu' or 'gpu', found nothing"),
        ('"lecture"', '"v100"', "'v100' is the name of another device"),
        ('"lecture"', '"this-cpu"', "'this-cpu' is the name of another device"),
        ('"lecture"', '"../x"', "name is a short word"),
        ('"L1"', '"DRAM"', "two levels have one name"),
        ("shared = false", "shared = true", "the nearest memory is one unit's own"),
        ("shared = true", 'shared = "yes"', "shared is true or false, found 'yes'"),
        ('capacity = { value = 16384, unit = "bytes a unit", source = "the blackboard" }', "",
         "every memory has a capacity but the last"),
        ("task_ns = {", "tsak_ns = {", "did you mean 'task_ns'"),
        ("task_ns = {", "lanes2 = {", "nothing is known as 'lanes2'"),
        ("value = 8,", "valeu = 8,", "did you mean 'value'"),
        ("[[levels]]", "[levels]", "it is no TOML"),
        (MINE, "", "name is a short word"),
        (MINE, "a = " + "[" * 5000, "it is no TOML"),
        (MINE, "levels = 3\n" + MINE.partition("[[")[0], "levels are 2 to 8 memories"),
        (MINE, "levels = [1, 2]\n" + MINE.partition("[[")[0], "it is a table, found 1"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_sheet_is_one_sentence(
    sheet: Callable[..., str], old: str, new: str, said: str
) -> None:
    assert old in MINE
    with pytest.raises(BadSheet) as refused:
        explorer.device(sheet(MINE.replace(old, new)))
    assert said in refused.value.sentence
    assert refused.value.sentence.startswith("lecture.toml") and len(refused.value.sentence) < 500


@pytest.mark.parametrize("lacks", ["block_threads", "transaction_bytes", "banks"])
def test_what_a_gpu_needs_for_tiles_is_named(sheet: Callable[..., str], lacks: str) -> None:
    lines = [row for row in MINE.splitlines() if not row.startswith(lacks)]
    if lacks == "banks":
        lines.insert(5, 'banks = { value = 0, unit = "banks", source = "the blackboard" }')
    with pytest.raises(BadOption, match=f"its data sheet lacks {lacks}"):
        explorer.compile(MODEL, target=sheet("\n".join(lines)), until="ROLLED")


def test_what_is_no_file_of_a_sheet_is_refused(sheet: Callable[..., str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "loop.toml").symlink_to(tmp_path / "loop.toml")
    sheet(b"\xff\xfe\x00", "bytes.toml")
    sheet("#" * (1 << 19), "large.toml")
    for name in ("pipe", "folder", "loop", "bytes", "large", "absent"):
        with pytest.raises(BadSheet, match=rf"{name}\.toml"):
            explorer.device(str(tmp_path / f"{name}.toml"))
    for target in (3, None, b"v100"):
        with pytest.raises(NoSuchDevice, match="a target is a device or the name of one"):
            explorer.compile(MODEL, target=target)  # type: ignore[arg-type]


def test_every_number_of_every_shipped_sheet_is_within_its_range() -> None:
    for path in SHEETS.iterdir():
        assert read_sheet(path.read_text()) == device(path.name.removesuffix(".toml"))
    known = {*explorer.device("v100").__dataclass_fields__, *OF_ALL_UNITS}
    assert {*NUMBERS, *LIMITS} <= known
    assert set(LEVELS) == {"capacity", "bandwidth", "line", "latency", "ways"}


def test_the_page_lists_every_key_with_its_unit_and_range() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "device.md").read_text("utf-8")
    rows = [tuple(part.strip() for part in x.split("|")[1:-1]) for x in page.splitlines()]
    listed = {row[0].strip("`"): row[2:] for row in rows if len(row) == 4 and row[0][:1] == "`"}
    for name, number in (NUMBERS | LIMITS | LEVELS).items():
        unit = f"{number.unit}, all units together" if number.all_units else number.unit
        assert listed.pop(name) == (unit or "any words", str(number)), name
    assert not listed


@pytest.mark.parametrize(
    ("name", "unit"), [("task_ns", "ns"), ("clock_ghz", "GHz"), ("units", "...")]
)
def test_a_missing_number_is_named_with_its_unit(name: str, unit: str) -> None:
    lines = [x for x in MINE.splitlines() if not x.startswith(name)]
    with pytest.raises(BadSheet, match=f'{name}: it is .* unit = "{unit}".*, found nothing'):
        read_sheet("\n".join(lines))


def test_an_unknown_key_lists_those_there_are() -> None:
    with pytest.raises(
        BadSheet, match="nothing is known as 'colour'; the keys are aliases, bank_bytes, ba"
    ):
        read_sheet(f'colour = "red"\n{MINE}')
