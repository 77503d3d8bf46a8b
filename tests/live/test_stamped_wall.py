"""The measured wall of the page is drawn as one of Python's: the same bytes."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from explorer.ir.decisions.wall import Brick, Gap, Wall
from explorer.runtime.device_program import instructions as isa
from tests.live.hand_modules import KERNELS
from tests.live.hand_programs import HandProgram, Written
from widgets.model.brick_wall import WallCall, data
from widgets.rammer.wall_slices import Source, pack_wall

Script = Callable[..., Any]
CANVAS = Path(__file__).parents[2] / "widgets" / "canvas"
PACK = """
const { head, bytes: packed } = live.stamped_wall.packWall(given.program, given.mean, given.known);
say({ head, bytes: text(packed) });
"""


def walled(seed: int, known: bool) -> tuple[dict[str, Any], Wall, list[WallCall]]:
    """A program with a mean run, its wall in Python, and the calls that the page has."""
    rnd = Random(seed)
    program = Written(seed).program
    portable = program.portable()
    runs = [n for n, row in enumerate(program.rows) if row[0] == isa.RUN]
    names = [c[2] for c in portable["launches"][0]["calls"]]
    calls = [WallCall(n, "conv", (), n) for n in (names[::-1] if known else [])]
    at, bricks, mean, gaps = 0.0, [], [], []
    for _ in range(30):
        row, idle, length = rnd.choice(runs), rnd.choice([0.0, 0.25, 1.5]), rnd.uniform(0.5, 90)
        _, call, first, last, _ = program.rows[row]
        name, origin = names[call], portable["launches"][0]["calls"][call][3]
        if idle:
            gaps.append(Gap(0, at, at + idle, "launch"))
        at += idle
        bricks.append(Brick(0, at, at + length, name, first, last, frozenset(origin), 0))
        mean.append({"row": row, "begin_us": at, "end_us": at + length, "error_us": 0.1})
        at += length
    gaps.append(Gap(0, at, at + 2.0, "tail"))
    wall = Wall("measured", tuple(bricks), tuple(gaps), 1, at + 2.0, "", "wasm-simd128")
    given = {"program": portable, "mean": {"bricks": mean, "total_us": at + 2.0}}
    return given | {"known": [[c.name, c.family, c.label, ""] for c in calls]}, wall, calls


@pytest.mark.parametrize("known", [True, False])
def test_a_wall_is_packed_as_in_python(in_node: Script, known: bool) -> None:
    packed = 0
    for seed in range(40):
        if not any(row[0] == isa.RUN for row in Written(seed).program.rows):
            continue
        given, wall, calls = walled(seed, known)
        expected, body = pack_wall(Source(data(wall, calls)))
        found = in_node(PACK, given)
        assert b64decode(found["bytes"]) == body
        own = found["head"].pop("calls", None)
        assert (own is None) == known
        assert found["head"].pop("said") == "measured in this browser"
        del expected["said"]
        assert found["head"].keys() == expected.keys()
        for name in ("areas_us", "shares", "slice"):
            assert found["head"].pop(name) == pytest.approx(expected.pop(name), rel=1e-9)
        assert found["head"].pop("busy") == pytest.approx(expected.pop("busy"), abs=1e-5)
        assert found["head"].pop("launch_us") == pytest.approx(expected.pop("launch_us"))
        assert found["head"] == expected
        packed += 1
        if packed == 4:
            break
    assert packed == 4


def test_the_canvas_reads_it(in_node: Script) -> None:
    given, wall, _ = walled(3, True)
    canvas = b64encode((CANVAS / "wall_data.js").read_bytes()).decode()
    script = f"""
const canvas = await import("data:text/javascript;base64,{canvas}");
const {{ program, mean, known }} = given, {{ packWall }} = live.stamped_wall;
const {{ head, bytes: packed }} = packWall(program, mean, known);
const wall = canvas.decodeWall(head, new DataView(packed.buffer)), {{ base }} = wall;
say(mean.bricks.map(b => {{
  const i = canvas.blockAt(base, 0, (b.begin_us + b.end_us) / 2);
  return [known[base.call[i]][0], base.single.first[i], base.single.last[i]];
}}));
"""
    blocks = in_node(script, given)
    assert blocks == [[b.call, b.first, b.last - 1] for b in wall.bricks]


@pytest.mark.parametrize("step", [0.1, 0.0])
def test_the_mean_of_stamps_finds_short_calls(in_node: Script, step: float) -> None:
    """Calls of 1 to 40 microseconds, on a clock of 100 and a fine one; a run in twenty waits."""
    script = """
let at = 0, state = 1;
const random = () => (state = (state * 1103515245 + 12345) % 2147483648) / 2147483648;
const floor = (value, step) => step ? Math.floor(value / step) * step : value;
const now = () => { at += 5e-5; return floor(at, given.step); };
const runner = { run(stamps) {
  at += 0.01 + 0.001 * random();
  given.lengths.forEach((us, n) => {
    const begin = now(); at += us / 1e3 * (1 + 0.02 * random()); const end = now();
    stamps.count++;
    if (n < stamps.capacity) { stamps.row[n] = n; stamps.begin[n] = begin; stamps.end[n] = end; }
    at += 0.0005;
  });
  if (random() < 0.05) at += 3;
} };
say(live.stamped_wall.meanRun(runner, 1, { now }));
"""
    lengths = [1.0, 5.0, 40.0, 12.0, 3.0]
    found = in_node(script, {"lengths": lengths, "step": step})
    assert found["runs"] > 3000 and found["dropped"] > 200 and found["left_out"] == 0
    free = 0.0
    for us, brick in zip(lengths, found["bricks"], strict=True):
        length = brick["end_us"] - brick["begin_us"]
        assert abs(length - 1.01 * us) < 4 * brick["error_us"] and brick["error_us"] < 1
        assert free <= brick["begin_us"] <= brick["end_us"]
        if not step and free:  # the clock is read in 0.05 microseconds, which are no gap
            assert brick["begin_us"] - free == pytest.approx(0.5, abs=0.01)
        free = brick["end_us"]
    assert found["total_us"] >= free


def test_a_call_within_a_step_of_the_clock_is_not_said_to_be_exact(in_node: Script) -> None:
    script = """
let at = 0;
const now = () => Math.floor(at / 0.1) * 0.1;
const stamp = (stamps, n) => { stamps.count++; if (n < stamps.capacity) stamps.row[n] = n; };
const runner = { run(stamps) { stamp(stamps, 0); at += 10; } };
const clock = () => { at += 1e-3; return now(); };
const { runs, bricks: [{ error_us }] } = live.stamped_wall.meanRun(runner, 1, { now: clock });
say([runs, error_us]);
"""
    runs, error_us = in_node(script)
    assert runs > 50 and error_us == pytest.approx(100 / runs, rel=1e-3)


def test_stamps_beyond_the_room_are_counted(in_node: Script) -> None:
    import numpy as np

    words = np.zeros(64, np.int64)
    words[0] = 70_000
    rows = [(isa.LET, 0, 0, 0, 0), (isa.LOOP, 0, 0, 5, 0), (isa.RUN, 0, 0, 1, 0)]
    rows += [(isa.NEXT, 0, 0, 0, 0), (isa.JUMP, 1, 0, 0, 0)]
    program = HandProgram(words, rows, [("add_tasks", [8, 16])], slots=[0])
    script = """
const runner = await live.program.openProgram(given.program, bytes(given.code), new Uint8Array(0));
runner.write(0, bytes(given.words));
const mean = live.stamped_wall.meanRun(runner, 0.1);
const calls = live.stamped_wall.callTimes(runner.program, mean);
say({ bricks: mean.bricks.length, left: mean.left_out, calls });
"""
    given = {"program": program.portable(), "code": b64encode(KERNELS).decode()}
    found = in_node(script, given | {"words": b64encode(words.tobytes()).decode()})
    assert found["bricks"] == 65_536 and found["left"] == 70_000 - 65_536
    (call,) = found["calls"]
    assert (call["name"], call["nodes"], call["times"]) == ("call_0", ["node_0"], 65_536)
