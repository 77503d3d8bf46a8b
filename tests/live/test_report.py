"""`ironworks report --live`, and the experiments of the course's pages."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

import explorer
import widgets
from explorer.errors import BadOption
from widgets.live.data import LivePage
from widgets.live.variants import KNOBS
from widgets.page.commands import report

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_a_live_report_names_its_variants_and_what_it_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.html"
    asked = ["zoo:tiny_skip", "--live", "--variants", "relaxed,convolution", "-o", str(path)]
    assert report([*asked, "--no-code", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["live"] == ["as compiled", "relaxed SIMD"]
    assert said["not live"] == ["direct convolution: the same program as 'as compiled'."]
    text = path.read_text("utf-8")
    assert text.count('<script id="live-content"') == 1 and "'wasm-unsafe-eval'" in text


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--variants", "fusion"], "this one is not live"),
        (["--live", "--variants", "fuson"], "no variant 'fuson'"),
    ],
)
def test_flags_that_do_not_fit_are_refused_before_anything_is_compiled(
    flags: list[str], sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("widgets.page.commands.load_model", lambda flags: 1 / 0)
    with pytest.raises(BadOption, match=sentence):
        report(["zoo:tiny_skip", *flags, "-o", str(tmp_path / "report.html")])


def test_a_page_of_a_notebook_is_live_if_that_is_wanted() -> None:
    c = explorer.compile("zoo:tiny_skip", until="planned")
    programs = '<script id="live-content"'
    assert programs not in widgets.report(c, code=False)
    assert programs in widgets.report(c, code=False, live=("relaxed",))
    with pytest.raises(BadOption, match="no variant"):
        widgets.report(c, code=False, live=("memry",))


def test_every_chapter_has_an_experiment_of_variants_that_there_are() -> None:
    experiments = runpy.run_path(str(ROOT / "docs/live.py"))["EXPERIMENTS"]
    assert sorted(experiments) == CHAPTERS
    for chapter, experiment in experiments.items():
        assert experiment.variants and {*experiment.variants} <= {*KNOBS}, chapter
        assert experiment.words.endswith((".", "?")), chapter


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_is_small_and_has_every_variant(chapter: str, tmp_path: Path) -> None:
    docs: dict[str, Any] = runpy.run_path(str(ROOT / "docs/live.py"))
    made: list[LivePage] = []
    live_page = docs["live_page"]

    def noted(*given: Any, **more: Any) -> LivePage:
        made.append(live_page(*given, **more))
        return made[-1]

    docs["write_experiment"].__globals__["live_page"] = noted
    docs["write_experiment"](chapter, tmp_path / "live.js")
    assert (tmp_path / "live.js").stat().st_size <= docs["MOST_BYTES"]
    (page,) = made
    assert page.left_out == ()
    assert len(page.variants) == 1 + len(docs["EXPERIMENTS"][chapter].variants)
