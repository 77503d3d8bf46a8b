"""A long opening says what it is at under its cell."""

from __future__ import annotations

import re
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest

import explorer
import explorer.np as enp
import widgets
from explorer.compiler.pipeline import pipeline
from explorer.errors import IronworksError
from explorer.process.cancellation import reporting_to
from widgets.page import progress_line
from widgets.session import compiling

Shown = list[tuple[float, dict[str, str]]]


@explorer.trace
def model(x: explorer.tensor("float32", 4, 8)) -> Any:  # type: ignore[valid-type]
    return enp.tanh(x)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """What a cell has shown, each with when."""
    found: Shown = []

    class Handle:
        def display(self, data: dict[str, str], raw: bool) -> None:
            found.append((monotonic(), data))

        update = display

    monkeypatch.setattr(progress_line, "DisplayHandle", Handle)
    monkeypatch.setattr(progress_line, "get_ipython", lambda: SimpleNamespace(kernel=object()))
    return found


def test_a_long_opening_says_its_step_at_once_and_nothing_at_its_end(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(*given: Any, progress: Any, **more: Any) -> Any:
        progress("roll: conv_3", 12, 25)
        sleep(0.6)
        return compiled(*given, **more)

    compiled = compiling.compile_model
    monkeypatch.setattr(compiling, "compile_model", slowly)
    begin = monotonic()
    widgets.explore(model)
    texts = [re.sub("<[^>]*>", "", data.get("text/html", "")) for _, data in shown]
    assert any(t.startswith("Compiling: roll: conv_3, 13 of 25") for t in texts)
    assert shown[0][0] - begin < 1.0  # 0.2 s here, on a machine that does nothing else
    assert shown[-1][1] == {"text/html": ""}


def test_a_quick_opening_shows_no_line(shown: Shown) -> None:
    with progress_line.progress_line("Loading") as line:
        line.say("Compiling")
    assert not shown


def test_an_opening_that_fails_leaves_no_line(shown: Shown) -> None:
    with pytest.raises(IronworksError), progress_line.progress_line("Loading"):
        sleep(0.3)
        explorer.load("zoo:nothing_like_it")
    assert shown and shown[-1][1] == {"text/html": ""}


def test_every_kernel_of_a_long_step_is_told() -> None:
    c = explorer.compile("zoo:tiny_mobilenetv2", "v100", until="planned")
    programs = {s.name: s.before for s in c.snapshots}
    for name in ("fuse (Welder)", "select convolution algorithms", "tile (Roller)"):
        told: list[tuple[str, int, int]] = []
        step = next(s for s in pipeline(c.options, c.device) if s.name == name)
        with reporting_to(lambda *parts: told.append(parts)):  # noqa: B023
            step.run(programs[name])
        assert told and [done for _, done, _ in told] == list(range(len(told)))
        assert {of for *_, of in told} == {len(told)}
        assert all(what.startswith(f"{name}: ") for what, *_ in told)
