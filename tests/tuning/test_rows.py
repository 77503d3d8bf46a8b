"""Rows of a race: kept as they are made, not made again, and told by a command that can stop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from explorer.errors import BadOption
from explorer.tuning.races import rows
from explorer.tuning.races.rows import Race, named
from explorer.tuning.races.timed import Ratio

MODEL = "zoo:small_nerf"


@dataclass(frozen=True, slots=True)
class Made:
    """The least that a row holds."""

    model: str
    threads: int = 2
    seconds: float = 1.0
    against: Mapping[str, float] = field(default_factory=lambda: {"torch": 2.0})
    skipped: Mapping[str, str] = field(default_factory=lambda: {"torch.compile": "not there"})
    fastest_other: str = ""
    ratio: Ratio | None = None


RACE = Race(
    "a_race",
    "no.module",
    (MODEL,),
    ("torch",),
    lambda fields: Made(**fields),
    lambda row: f"row of {row.model}",
    lambda found: {"models": len(found)},
)


def silent(text: str) -> None:
    pass


def answering(monkeypatch: pytest.MonkeyPatch, without: str = "") -> list[str]:
    """Processes that make every row but one; what they were asked for."""
    asked: list[str] = []

    def made(module: str, words: list[str]) -> Mapping[str, Any] | None:
        asked.append(words[0])
        return None if words[0] == without else asdict(Made(words[0]))

    monkeypatch.setattr(rows, "in_a_process", made)
    return asked


def test_models_are_named_with_or_without_zoo_or_are_files(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(b"")
    assert named(f"small_vit,zoo:nerf,{file}") == ("zoo:small_vit", "zoo:nerf", str(file))
    assert named("nasbench_3") == ("zoo:nasbench_3",)
    with pytest.raises(BadOption, match="'resnet' is no file and no model of the zoo"):
        named("resnet")


def test_a_run_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []

    def made(module: str, words: list[str]) -> Mapping[str, Any] | None:
        asked.append(words[0])
        if words[0] == "b" and len(asked) == 2:
            raise KeyboardInterrupt
        return None if words[0] == "c" else asdict(Made(words[0]))

    monkeypatch.setattr(rows, "in_a_process", made)
    partial = tmp_path / "rows.jsonl"
    run = lambda: RACE.rows(("a", "b", "c"), 2, 1.0, silent, ("torch",), partial)  # noqa: E731
    with pytest.raises(KeyboardInterrupt):
        list(run())
    with partial.open("a") as file:
        file.write('{"asked": "b", "ro')  # as a killed run leaves it
    assert [r.model for r in run()] == ["a", "b"]
    assert asked == ["a", "b", "b", "c"]
    assert [r.model for r in run()] == ["a", "b"]
    assert asked == ["a", "b", "b", "c", "c"]  # the row after the unfinished line was kept too


def test_a_kept_row_of_fewer_runtimes_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = answering(monkeypatch)
    partial = tmp_path / "rows.jsonl"
    for against in (("torch",), ("torch", "torch.compile"), ("jax",), ("torch",)):
        list(RACE.rows(("a",), 2, 1.0, silent, against, partial))
    assert asked == ["a", "a"]  # the first, and jax: that torch.compile is missing was found before


def test_the_command_has_a_code_for_every_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch)
    assert RACE.main(["--json"]) == rows.OK
    found = json.loads(capsys.readouterr().out)
    assert found["rows"][0]["model"] == MODEL and found["models"] == 1
    assert RACE.main([]) == rows.OK and f"row of {MODEL}" in capsys.readouterr().out
    answering(monkeypatch, without=MODEL)
    assert RACE.main([]) == rows.NO
    assert RACE.main(["--models", "nothing"]) == rows.BAD
    assert RACE.main(["--against", "tensorflow"]) == rows.BAD

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rows, "in_a_process", stop)
    assert RACE.main([]) == rows.STOPPED


def test_means_are_geometric() -> None:
    assert rows.mean({"a": 2.0, "b": 8.0}) == pytest.approx(4.0)
    assert rows.mean({}) is None
