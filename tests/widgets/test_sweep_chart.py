"""The figure of a sweep: what may be compared stands together, and nothing else does."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

import explorer
import widgets
from explorer.errors import BadOption
from explorer.tuning.sweep import Sweep
from explorer.tuning.sweep_rows import FAILED, MEASURED, SIMULATED, SweepRow


def row(
    top_k: str, seq: str, us: float, arena: int, card: str = "a card, 2 cores; more"
) -> SweepRow:
    varied = (("roller.top_k", top_k), ("bind.seq", seq))
    return SweepRow(
        f"{varied}{card}", "m", varied, MEASURED, card, card, us, us, us, 9, us, 1, arena * 1024
    )


VARY = (("roller.top_k", ("1", "10")), ("bind.seq", ("4", "64")))
ROWS = (
    row("1", "4", 2.0, 8),
    row("10", "4", 1.0, 9),
    row("1", "64", 5.0, 16),
    row("10", "64", 4.0, 16),
)


@pytest.mark.parametrize("theme", ["light", "dark", "either"])
def test_groups_that_may_be_compared_have_lines_and_a_front_of_their_own(theme: str) -> None:
    failed = replace(row("2", "4", 0.0, 0), kind=FAILED, median_us=None, reason="why")
    figure = widgets.sweep(Sweep("m", VARY, (*ROWS, failed)), theme)
    lines = [t for t in figure.data if t.type == "parcoords"]
    assert [t.visible for t in lines] == [True, False]
    assert [d.label for d in lines[0].dimensions] == ["roller.top_k", "µs, measured"]
    assert list(lines[0].dimensions[1].values) == [1.0, 2.0]
    fronts = [
        list(zip(t.x, t.y)) for t in figure.data if t.type == "scatter" and t.mode != "markers"
    ]
    assert fronts == [[(1.0, 9.0), (2.0, 8.0)], [(4.0, 16.0)]]
    labels = [b.label for b in figure.layout.updatemenus[0].buttons]
    assert labels == ["seq=4 on a card, 2 cores", "seq=64 on a card, 2 cores"]
    for number, button in enumerate(figure.layout.updatemenus[0].buttons):
        shown = button.args[0]["visible"]
        assert [n == number for n in range(2)] == shown[:2] and all(shown[2:])
        assert len(shown) == len(figure.data)
    assert "1 failed" in figure.layout.title.text


def test_one_group_has_no_menu_and_says_that_it_is_simulated() -> None:
    alone = replace(ROWS[0], kind=SIMULATED, median_us=None)
    figure = widgets.sweep(Sweep("m", VARY, (alone,)))
    assert not figure.layout.updatemenus
    assert [d.label for d in figure.data[0].dimensions] == ["µs, predicted"]


def test_where_every_point_failed_there_is_nothing_to_draw() -> None:
    with pytest.raises(BadOption, match="every point"):
        widgets.sweep(Sweep("m", VARY, (replace(ROWS[0], kind=FAILED),)))


def test_a_surface_has_the_least_time_of_each_pair_and_leaves_out_what_failed() -> None:
    vary = (*VARY[:1], ("rammer.threads", ("1", "2")), ("rammer.policy", ("a", "b")))

    def of(top_k: str, threads: str, policy: str, us: float) -> SweepRow:
        varied = (("roller.top_k", top_k), ("rammer.threads", threads), ("rammer.policy", policy))
        return replace(row(top_k, "4", us, 1), key=f"{varied}", varied=varied)

    rows = (
        of("1", "1", "a", 5.0),
        of("1", "1", "b", 4.0),
        of("10", "1", "a", 3.0),
        replace(of("1", "2", "a", 0.0), kind=FAILED, median_us=None, reason="why"),
    )
    found = Sweep("m", vary, rows)
    (surface,) = widgets.sweep(found, over=("roller.top_k", "rammer.threads")).data
    assert [list(line) for line in surface.z] == [[4.0, 3.0], [None, None]]
    assert "rammer.policy=b" in surface.customdata[0][0]
    for over in (("roller.top_k", "bind.seq"), ("roller.top_k", "roller.top_k")):
        with pytest.raises(BadOption, match="over two of what was varied"):
            widgets.sweep(found, over=over)
    with pytest.raises(BadOption, match="every point"):
        widgets.sweep(Sweep("m", vary, rows[3:]), over=("roller.top_k", "rammer.threads"))


def test_a_chart_grows_while_points_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("widgets.timed.sweep.PAUSE", 0.0)
    live, seen = widgets.live_sweep(), []

    def arrived(found: Sweep) -> None:
        live(found)
        lines = [t for t in live.figure.data if t.type == "parcoords"]
        seen.append((len(found.rows), len(lines[0].line.color)))

    vary = {"target": ["v100", "a100"], "rammer.policy": ["wavefront", "op-by-op"]}
    found = explorer.sweep("zoo:tiny_skip", vary, executor=ThreadPoolExecutor(1), arrived=arrived)
    assert seen == [(1, 1), (2, 2), (3, 3), (4, 4)] and len(found.rows) == 4
    assert "4 points" in live.figure.layout.title.text
