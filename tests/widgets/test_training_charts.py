"""Charts of training: what they show is what happened."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import explorer
from explorer import np as enp
from explorer.errors import BadOption
from explorer.training import SGD, Adam, Fitted
from explorer.transforms.autodiff.options import Options as Rematerialised
from widgets.training import Live, losses, memory_time, skipped_updates, threads, update

X = np.ones((4, 3), np.float32)


def fitted(**options: Any) -> Fitted:
    return explorer.fit(
        lambda p, x: ((p - x) ** 2).mean(),
        np.zeros(3, np.float32),
        [X] * 10,
        SGD(0.5),
        epochs=3,
        validate=[X],
        **options,
    )


def test_losses_are_those_of_the_run() -> None:
    run = fitted()
    each, mean, found = losses(run).data
    assert list(each.y) == run.losses
    assert list(mean.y) == [e.loss for e in run.epochs] + [run.epochs[-1].loss]
    assert list(mean.x) == [0, 10, 20, 30]
    assert list(found.y) == [e.validated["loss"] for e in run.epochs]
    assert losses(run, log=True).layout.yaxis.type == "log"


def test_many_losses_are_drawn_as_means() -> None:
    run = fitted()
    run.losses = list(map(float, range(10_000)))
    each = losses(run).data[0]
    assert len(each.y) <= 4000
    assert each.x[-1] == 10_000
    assert each.y[0] == np.mean(run.losses[:3])


def test_threads_have_their_bars_and_only_ordinary_runs_read() -> None:
    figure = threads({"free": fitted(), "ordinary": fitted(sync_free=False)}, steps=(5, 9))
    names = {(t.name, t.xaxis) for t in figure.data}
    assert ("the host reads a value", "x2") in names
    assert ("the host reads a value", "x") not in names
    runs = [t for t in figure.data if t.name == "runs a step"]
    assert [[n for n, _ in t.customdata] for t in runs] == [list(range(5, 10))] * 2
    for trace in figure.data:
        assert min(trace.x) >= 0
    assert len({t.name for t in figure.data}) == sum(t.showlegend for t in figure.data)


@pytest.mark.parametrize("optimizer", [SGD(0.1, momentum=0.9), SGD(0.1), Adam(0.1)])
@pytest.mark.parametrize("nan_at", [(), (0,), (0, 1, 5), tuple(range(8))])
def test_where_is_what_skipping_is_and_the_others_are_not(optimizer: Any, nan_at: Any) -> None:
    found = skipped_updates(nan_at, optimizer)
    assert found["where"] == found["skip"]
    assert np.isfinite(found["where"].values).all()
    assert found["where"].counted[-1] == 8 - len(nan_at)
    assert found["where"].scales[-1] == 65536 * 0.5 ** len(nan_at)
    assert np.isnan(found["mask"].values).any() == bool(nan_at)
    goes_on = isinstance(optimizer, Adam) or optimizer.momentum
    if goes_on and nan_at not in ((), (0,), tuple(range(8))):
        assert found["zeros"].values != found["skip"].values


@pytest.mark.parametrize("theme", ["light", "dark", "either"])
def test_figures_are_plotly_s_in_all_themes(theme: str) -> None:
    run = fitted()
    for figure in (losses(run, theme=theme), threads(run, theme=theme), update(theme=theme)):
        told = json.loads(figure.to_json())
        papers = {"light": "#ffffff", "dark": "#15191c", "either": "rgba(0,0,0,0)"}
        assert told["layout"]["paper_bgcolor"] == papers[theme]
        assert told["layout"]["title"]["text"]
    with pytest.raises(BadOption, match="no theme 'blue'"):
        losses(run, theme="blue")


def test_a_chart_grows_with_the_run() -> None:
    live, drawn = Live(), []

    def told(run: Fitted) -> None:
        live.draw(run)
        drawn.append(len(live.figure.data[0].y))

    run = fitted(progress=told)
    assert drawn == list(range(1, 31))
    live.draw(run)
    assert len(live.figure.data) == 3
    assert live.figure.layout.title.text == str(run)
    assert losses(Fitted(X, {"optimizer": {"step": 0}})).data[0].y == ()


def deep(p: Any, x: Any) -> Any:
    for w in p:
        x = enp.tanh(x @ w)
    return (x * x).mean()


def test_memory_and_time_are_what_was_weighed_and_the_slider_goes_through() -> None:
    widths = [explorer.tensor("float32", 8, 8)] * 6
    step = explorer.trace(explorer.value_and_grad(deep))(widths, explorer.tensor("float32", 64, 8))
    plain = explorer.compile(step, until="planned")
    again = explorer.Options(rematerialisation=Rematerialised(share=0.7))
    small = explorer.compile(step, options=again, until="planned")
    (row,) = small.program.decisions.rematerialisation
    for c in (plain, small):
        figure = memory_time(c)
        line, *points = figure.data
        assert "(KiB)" in figure.layout.xaxis.title.text
        assert "(µs)" in figure.layout.yaxis.title.text
        assert {b.value.us for b in row.candidates} == set(line.y)
        assert list(line.x) == sorted(line.x, reverse=True)
        assert {b.value.peak_bytes / 2**10 for b in row.candidates} == set(line.x)
        (shown,) = [p for p in points if p.visible]
        assert shown.name == "taken here"
        wanted = max(line.x) if c is plain else row.chosen.peak_bytes / 2**10
        assert shown.x[0] == wanted
        (slider,) = figure.layout.sliders
        assert len(slider.steps) == len(points) == len(line.x) > 2
        for n, moved in enumerate(slider.steps):
            assert [m for m, on in enumerate(moved.args[0]["visible"][1:]) if on] == [n]
            assert "predicted" in moved.args[1]["title.text"]
