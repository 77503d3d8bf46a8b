"""A picture of one's own, from a cell: it is shown, asked for and replaced like any other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import explorer
import widgets
from explorer.errors import BadOption
from widgets.rooms import gallery, own_picture
from widgets.session.session import Session

MODEL = "tests/data/tiny_skip.onnx"


@pytest.fixture(autouse=True)
def own_gallery(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(gallery, "PICTURES", gallery.PICTURES)
    monkeypatch.setattr(own_picture, "_own", {})
    yield


def test_it_has_its_tab_its_rows_and_its_table_and_a_second_run_replaces_it() -> None:
    for factor in (1, 2):

        @widgets.picture("origins", title="Operators of a kernel", unit="operators")
        def origins(c: Any, factor: int = factor) -> Any:
            return [(k.name, factor * len(k.origin)) for k in c.program.kernel_calls]

        c = explorer.compile(MODEL)
        rows = widgets.data(c, "origins")
        assert dict(rows)["sum_1"] == factor
        assert [p.name for p in gallery.PICTURES].count("origins") == 1
        assert "origins" in gallery.choices()
        found = Session(c).answer("picture", {"room": "origins", "op": -1})
        assert "sum_1" in found["svg"] and "operators, from 0 to" in found["svg"]
        assert found["table"]["caption"] == "Operators of a kernel, in operators"
    widgets.forget_picture("origins")
    assert "origins" not in gallery.choices()


def test_what_it_raises_is_told_with_its_line() -> None:
    @widgets.picture("broken", title="Broken", unit="us")
    def broken(c: Any) -> Any:
        return 1 / 0

    said = r"the picture 'broken' failed: ZeroDivisionError: .* of test_own_picture.py \(`return"
    with pytest.raises(BadOption, match=said):
        widgets.data(explorer.compile(MODEL), "broken")


def test_nothing_and_long_and_odd_rows_are_drawn() -> None:
    @widgets.picture("many", title="Many", unit="us")
    def many(c: Any) -> Any:
        return [(f"<{n}>", -n) for n in range(count)]

    c = explorer.compile(MODEL)
    for count in (0, 1, 300):
        svg = Session(c).answer("picture", {"room": "many", "op": -1})["svg"]
        assert "<0>" not in svg and ("&lt;0&gt;" in svg) == (count > 0)


@pytest.mark.parametrize("name", ["", "a b", "rammer", 3])
def test_a_name_that_is_none_or_taken_is_refused(name: Any) -> None:
    with pytest.raises(BadOption, match="name"):
        widgets.picture(name, title="A", unit="us")
    with pytest.raises(BadOption, match="no picture of your own"):
        widgets.forget_picture("rammer")
