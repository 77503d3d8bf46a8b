"""The timeline of replicas shows the stamps of the run, and its sums are those of the stamps."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import replace
from functools import cache
from statistics import fmean, median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
import widgets
from explorer.errors import BadOption
from explorer.training import SGD, Fitted, Span, Timeline, on_threads
from explorer.training.fitted import What
from tests.training.test_replicas import WIDE_DATA, abreast
from widgets.training import replica_timeline, replicas, threads
from widgets.training.replica_timeline import data

Stamp = tuple[What, float, float]


def timeline(steps: list[list[Stamp]], start: float = 0.0) -> Timeline:
    """Stamps of each step, in milliseconds since it began; a step takes 100."""
    found = Timeline(start)
    for n, stamps in enumerate(steps):
        for what, begin, end in (*stamps, ("run", 0, max(e for _, _, e in stamps))):
            at = [(100 * n + t) / 1e3 for t in (begin, end)]
            size = 1 << 20 if what == "reduce" else 0
            found.spans.append(Span("main", what, n, at[0], at[1], 0, size, "w"))  # type: ignore[arg-type]
    return found


OVER: list[Stamp] = [
    ("forward", 0, 10),
    ("backward", 10, 20),
    ("backward", 20, 30),
    ("reduce", 22, 32),  # 8 of 10 below the passes
    ("reduce", 33, 35),
    ("update", 35, 40),
]
AFTER: list[Stamp] = [
    ("forward", 0, 10),
    ("backward", 10, 30),
    ("read", 30, 33),
    ("reduce", 33, 43),
    ("update", 43, 48),
]
WARM: list[Stamp] = [("forward", 0, 1), ("reduce", 1, 90), ("update", 90, 91)]  # it does not count


def test_what_lies_under_the_passes_is_counted_and_the_first_step_is_not() -> None:
    two = [timeline([WARM, OVER, OVER], start) for start in (5.0, 5.002)]
    one = [timeline([WARM, AFTER])]
    free, ordinary = data({"free": two, "ordinary": one})
    found = (free.steps, free.replicas, free.sums_ms, free.hidden_ms, free.read_ms, free.step_ms)
    assert found == pytest.approx((2, 2, 12, 8, 0, 40))
    assert (ordinary.sums_ms, ordinary.hidden, ordinary.read_ms) == pytest.approx((10, 0, 3))
    assert ordinary.step_ms == pytest.approx(48)
    assert free.words == (
        "free: 12.0 ms of all-reduce and its waits, 67% of that under the passes, no host reads, "
        "a step takes 40.0 ms"
    )
    assert "its hosts read 3.00 ms" in ordinary.words
    begins = {(b.replica, b.what): b.begin_ms for b in reversed(free.bars)}
    assert begins[0, "forward"] == 0
    assert begins[1, "forward"] == pytest.approx(2)  # its clock began later
    assert begins[1, "update"] == pytest.approx(37)


PARTS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9)), min_size=1, max_size=8)


@given(PARTS, PARTS)
def test_the_share_that_is_hidden_is_that_of_counted_ticks(
    passes: list[tuple[int, int]], sums: list[tuple[int, int]]
) -> None:
    """Gaps and lengths in milliseconds; each tick is in a pass, in a sum, in both or in none."""

    def laid(kind: What, parts: list[tuple[int, int]]) -> list[Stamp]:
        found: list[Stamp] = []
        at = 0
        for gap, length in parts:
            found.append((kind, at + gap, at + gap + length))
            at += gap + length
        return found

    stamps = laid("backward", passes) + laid("reduce", sums)
    (run,) = data([timeline([stamps])])
    ticks = {
        kind: {t for what, a, b in stamps if what == kind for t in range(int(a), int(b))}
        for kind in ("backward", "reduce")
    }
    both = len(ticks["backward"] & ticks["reduce"])
    assert run.hidden_ms == pytest.approx(both)
    assert run.sums_ms == pytest.approx(len(ticks["reduce"]))
    assert timeline([stamps]).hidden == pytest.approx(both / len(ticks["reduce"]))


@cache
def real() -> dict[str, list[Fitted]]:
    return {
        "sync-free": abreast(on_threads(2)),
        "ordinary": abreast(on_threads(2), sync_free=False),
    }


def marked(figure: Any) -> list[tuple[float, float, str]]:
    return sorted(
        (base, x, words)
        for trace in figure.data
        for base, x, words in zip(trace.base, trace.x, trace.customdata, strict=True)
    )


def test_bars_are_the_stamps_of_the_step_that_takes_the_median() -> None:
    runs = real()
    rows = data(runs)
    for row, fitted in zip(rows, runs.values(), strict=True):
        spans = [[s for s in f.timeline.spans if s.step] for f in fitted]
        each = [fmean(s.seconds for own in spans for s in own if (s.what, s.step) == ("run", n))
                for n in range(1, len(WIDE_DATA))]  # fmt: skip
        assert row.step_ms == pytest.approx(1e3 * median(each))
        (step,) = {b.step for b in row.bars}
        assert 1e3 * each[step - 1] == pytest.approx(row.step_ms)
        for rank, (f, own) in enumerate(zip(fitted, spans, strict=True)):
            mine = [b for b in row.bars if b.replica == rank]
            shown = [s for s in own if s.step == step and s.what in replica_timeline.WORDS]
            assert sorted((b.what, b.about, b.bytes) for b in mine) == sorted(
                (s.what, s.about, s.bytes) for s in shown
            )
            zero = {
                round(1e3 * (f.timeline.start + s.begin) - b.begin_ms, 6)
                for s in shown
                for b in mine
                if (b.what, b.about) == (s.what, s.about)
            }
            assert len(zero) == 1  # one clock
        assert min(b.begin_ms for b in row.bars) == 0
    assert rows[1].hidden == 0
    assert [r.read_ms > 0 for r in rows] == [False, True]


def test_the_chart_has_each_bar_once_and_the_reads_of_the_ordinary_form_alone() -> None:
    rows, figure = data(real()), widgets.figure(real(), "replicas")
    assert marked(figure) == sorted(
        (b.begin_ms, b.ms, f"{r.name}, {b.words}") for r in rows for b in r.bars
    )
    (reads,) = [t for t in figure.data if t.name == replica_timeline.WORDS["read"]]
    assert len(reads.x) == 2 and all(w.startswith("ordinary") for w in reads.customdata)
    labels = dict(zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True))
    for trace in figure.data:
        sums = trace.name == replica_timeline.WORDS["reduce"]
        for at, words in zip(trace.y, trace.customdata, strict=True):
            assert labels[at] == ("sums" if sums else words.split(", ")[1])
    assert [a.text for a in figure.layout.annotations] == ["<b>sync-free</b>", "<b>ordinary</b>"]
    assert figure.layout.xaxis.title.text == "time since the step began (ms), measured"
    assert "under the passes" in figure.layout.title.text


def test_steps_are_those_that_are_asked_for() -> None:
    figure = replicas(real()["sync-free"], steps=(2, 3))
    steps = {words.split("step ")[1].split(":")[0] for *_, words in marked(figure)}
    assert steps == {"2", "3"}


def test_the_room_has_the_chart_and_a_table_of_its_bars() -> None:
    room = widgets.replicas(real())
    rows = data(real())
    assert len(room.table.rows) == sum(len(r.bars) for r in rows)
    assert room.table.caption == room.chart["said"] == replica_timeline.caption(rows)
    assert "var(--" in json.dumps(room.chart["figure"])
    assert [t["name"] for t in room.chart["figure"]["data"]] == [
        t.name for t in replicas(real()).data
    ]


@pytest.mark.parametrize("theme", ["light", "dark", "either"])
def test_it_is_drawn_in_all_themes_also_of_stamps_alone(theme: str) -> None:
    stamps = {name: [f.timeline for f in run] for name, run in real().items()}
    told = json.loads(replicas(stamps, theme=theme).to_json())
    papers = {"light": "#ffffff", "dark": "#15191c", "either": "rgba(0,0,0,0)"}
    assert told["layout"]["paper_bgcolor"] == papers[theme]


def test_a_long_list_of_parameters_is_shortened_to_what_a_bar_holds() -> None:
    names = ", ".join(f"layers.{n}.weight" for n in range(9))
    short: list[Stamp] = [("backward", 0, 60), ("reduce", 60, 61)]
    found = timeline([short])
    found.spans.extend(
        [Span(s.lane, s.what, 0, s.begin, s.end, 0, 0, names) for s in list(found.spans)]
    )
    texts = {t for trace in replicas([found]).data for t in trace.text}
    assert texts == {"w", "", "layers.0.weight and 8 more"}
    two: list[Stamp] = [("backward", 0, 6), ("backward", 6, 95), ("reduce", 95, 96)]
    short_ones = timeline([two])
    spans = [replace(s, about="w5, w4" if s.what == "backward" else "") for s in short_ones.spans]
    drawn = replicas([Timeline(0.0, deque(spans))]).data
    assert {t for trace in drawn for t in trace.text} == {"w5 …", "w5, w4", ""}


def test_threads_of_a_replica_have_a_row_for_its_sums() -> None:
    figure = threads(real()["sync-free"][0])
    (sums,) = [t for t in figure.data if t.name == "all-reduce"]
    assert set(sums.y) == {"sums gradients"}


def test_a_run_without_replicas_is_refused() -> None:
    alone = explorer.fit(
        lambda p, x: ((p - x) ** 2).mean(), np.zeros(3, np.float32), [np.ones((4, 3), "f4")], SGD()
    )
    with pytest.raises(BadOption, match="no stamps of replicas"):
        widgets.figure([alone], "replicas")
    with pytest.raises(BadOption, match="no stamps of replicas"):
        data({"none": []})
