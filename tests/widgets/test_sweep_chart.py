"""The figure of a sweep: what may be compared stands together, and nothing else does."""

from dataclasses import replace

import pytest

import widgets
from explorer.errors import BadOption
from explorer.tuning.sweep import Sweep
from explorer.tuning.sweep.rows import FAILED, MEASURED, SIMULATED, Row


def row(top_k: str, seq: str, us: float, arena: int, card: str = "a card, 2 cores; more") -> Row:
    varied = (("roller.top_k", top_k), ("bind.seq", seq))
    return Row(
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
    assert [d.label for d in figure.data[0].dimensions] == ["µs, simulated"]


def test_where_every_point_failed_there_is_nothing_to_draw() -> None:
    with pytest.raises(BadOption, match="every point"):
        widgets.sweep(Sweep("m", VARY, (replace(ROWS[0], kind=FAILED),)))
