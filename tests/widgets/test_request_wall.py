"""The wall of requests shows the schedule, and its numbers are those of the result."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import widgets
from explorer.errors import BadOption
from explorer.generation.generated import Continuation
from explorer.generation.generated_many import GeneratedMany, Latency, ScheduledStep
from widgets.timed import request_wall
from widgets.timed.request_wall import Brick

# Request 1 is read in two chunks between the steps of request 0; then request 2 has its row.
STEPS = (
    ScheduledStep("prefill", (0,), (0,), 16, 0.001, 0.004),
    ScheduledStep("decode", (0,), (0,), 1, 0.004, 0.006),
    ScheduledStep("prefill", (1,), (1,), 16, 0.006, 0.012),
    ScheduledStep("prefill", (1,), (1,), 64, 0.012, 0.020),
    ScheduledStep("decode", (0, 1), (0, 1), 1, 0.020, 0.025),
    ScheduledStep("prefill", (1,), (2,), 16, 0.026, 0.029),
    ScheduledStep("decode", (1,), (2,), 1, 0.030, 0.032),
)
RESULT = GeneratedMany(
    tuple(Continuation(ids, "", "tokens") for ids in ((1, 2, 3), (4, 5), (6, 7))),
    (
        Latency(0.0, 0.001, (0.004, 0.006, 0.025)),
        Latency(0.005, 0.006, (0.020, 0.025)),
        Latency(0.006, 0.026, (0.029, 0.032)),
    ),
    STEPS,
    64,
)


def test_each_row_of_each_step_is_a_brick() -> None:
    bricks = request_wall.data(RESULT)
    assert len(bricks) == sum(len(s.rows) for s in STEPS)
    assert [b.request for b in bricks] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert replace(bricks[2], begin_ms=20, ms=5) == Brick(0, 0, "decode", 1, 1, 20, 5)
    assert (bricks[2].begin_ms, bricks[2].ms) == pytest.approx((20, 5))
    assert bricks[4].words == "request 1, row 1: prefill of 64 tokens, 8.00 ms from 12.0 ms on"


def test_steps_of_long_runs_are_joined_up_to_the_next_chunk() -> None:
    steps = [
        ScheduledStep("decode", (0,), (0,), 1, 0.033 + n, 0.034 + n) for n in range(0, 6)
    ]  # seconds apart, so that a chunk fits between
    chunk = ScheduledStep("prefill", (1,), (3,), 16, 2.5, 2.6)
    result = replace(RESULT, schedule=(*STEPS, *steps[:3], chunk, *steps[3:]))
    joined = request_wall.data(result, most=5)
    zero = [b for b in joined if b.request == 0]
    assert [(b.kind, b.steps, b.tokens) for b in zero] == [
        ("prefill", 1, 16), ("decode", 1, 1), ("decode", 1, 1), ("decode", 3, 3), ("decode", 3, 3),
    ]  # fmt: skip
    assert zero[3].begin_ms == pytest.approx(33) and zero[3].ms == pytest.approx(2001)
    assert "decode of 3 tokens in 3 steps" in zero[3].words
    separate = request_wall.data(result)
    assert sum(b.tokens for b in joined) == sum(b.tokens for b in separate)


def test_the_chart_has_each_brick_once_in_its_row() -> None:
    figure = widgets.figure(RESULT, "requests")
    drawn = [
        (row, base, x, words, trace.name)
        for trace in figure.data
        if trace.customdata is not None
        for row, base, x, words in zip(trace.y, trace.base, trace.x, trace.customdata, strict=True)
    ]
    assert drawn == [
        (b.row, b.begin_ms, b.ms, b.words, f"request {b.request}")
        for b in request_wall.data(RESULT)
    ]
    hatched = {t.marker.pattern.shape for t in figure.data if "prefill of" in str(t.customdata)}
    assert hatched == {"/"}
    assert [t.name for t in figure.data if t.showlegend] == [
        "prefill, a chunk", "decode, a token", "request 0", "request 1", "request 2",
    ]  # fmt: skip
    (numbers,) = [t for t in figure.data if t.type == "scatter"]
    assert dict(zip(numbers.text, numbers.y, strict=True)) == {
        "<b>0</b>": 0, "<b>1</b>": 1, "<b>2</b>": 1,
    }  # fmt: skip
    assert "tokens/s" in figure.layout.title.text


def test_many_requests_are_named_on_their_bricks_alone() -> None:
    steps = tuple(ScheduledStep("decode", (0,), (n,), 1, n, n + 0.9) for n in range(20))
    figure = widgets.figure(replace(RESULT, schedule=steps), "requests")
    assert [t.name for t in figure.data if t.showlegend] == ["prefill, a chunk", "decode, a token"]
    (numbers,) = [t for t in figure.data if t.type == "scatter"]
    assert len(numbers.text) == 20


def test_the_room_has_the_chart_and_a_table_of_the_steps() -> None:
    room = widgets.requests(RESULT)
    assert len(room.table.rows) == len(STEPS)
    assert room.table.rows[4][:5] == (4, "decode", "0, 1", "0, 1", 2)
    assert room.chart["said"] == room.table.caption
    assert "20.0 ms of prefill, 9.00 ms of decode, 3.00 ms of sampling" in room.table.caption
    assert "var(--" in json.dumps(room.chart["figure"])


@pytest.mark.parametrize("theme", ["light", "dark", "either"])
def test_it_is_drawn_in_all_themes(theme: str) -> None:
    drawn = json.loads(widgets.figure(RESULT, "requests", theme=theme).to_json())
    papers = {"light": "#ffffff", "dark": "#15191c", "either": "rgba(0,0,0,0)"}
    assert drawn["layout"]["paper_bgcolor"] == papers[theme]


def test_a_result_without_steps_is_refused() -> None:
    with pytest.raises(BadOption, match="no steps"):
        widgets.figure(replace(RESULT, schedule=()), "requests")
