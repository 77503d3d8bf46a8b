"""Models in a process each: rows are kept as they are made, and an exit code says how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.errors import BadOption
from tests.benchmarks import paper_models
from tests.benchmarks.paper_models import ModelBench, in_a_process, named
from tests.benchmarks.rows import Row
from tests.benchmarks.test_rows import a_row

MODEL = "zoo:small_nerf"


def row_of_model(model: str, *_: object) -> Row:
    details = {"threads": 2, "seconds": 1.0}
    return replace(a_row(model), skipped={"torch.compile": "not there"}, details=details)


BENCH = ModelBench("no.module", "A race.", (MODEL,), ("torch",), row_of_model, ("threads",))


class Processes:
    """Processes that make every row but some; `asked` are the models that they were started for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, without: str = "", stop: str = "") -> None:
        self.asked, self.without, self.stop = list[str](), without, stop
        monkeypatch.setattr(paper_models, "in_a_process", self)

    def __call__(self, module: str, words: list[str]) -> Mapping[str, Any] | None:
        model = words[-1]
        self.asked.append(model)
        if model == self.stop:
            self.stop = ""
            raise KeyboardInterrupt
        return None if model == self.without else row_of_model(model).to_json()


def test_models_are_named_with_or_without_zoo_or_are_files(tmp_path: Path) -> None:
    file = tmp_path / "m.onnx"
    file.write_bytes(b"")
    assert named(f"small_vit,zoo:nerf,{file}") == ("zoo:small_vit", "zoo:nerf", str(file))
    assert named("nasbench_3") == ("zoo:nasbench_3",)
    with pytest.raises(BadOption, match="'resnet' is no file and no model of the zoo"):
        named("resnet")


def test_a_run_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    processes = Processes(monkeypatch, without="c", stop="b")
    partial = tmp_path / "rows.jsonl"
    run = lambda: BENCH.rows(("a", "b", "c"), 2, 1.0, ("torch",), partial)  # noqa: E731
    with pytest.raises(KeyboardInterrupt):
        list(run())
    with partial.open("a") as file:
        file.write('{"model": "b", "ro')  # as a killed run leaves it
    assert [r.case for r in run()] == ["a", "b"]
    assert processes.asked == ["a", "b", "b", "c"]
    assert [r.case for r in run()] == ["a", "b"]
    # the row after the unfinished line was kept too
    assert processes.asked == ["a", "b", "b", "c", "c"]


def test_a_kept_row_of_fewer_runtimes_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    processes = Processes(monkeypatch)
    partial = tmp_path / "rows.jsonl"
    for against in (("torch",), ("torch", "torch.compile"), ("jax",), ("torch",)):
        list(BENCH.rows(("a",), 2, 1.0, against, partial))
    assert processes.asked == ["a", "a"]  # the first, and jax: torch.compile was skipped before


def test_the_command_has_a_code_for_every_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Processes(monkeypatch)
    assert BENCH.main(["--json"]) == paper_models.OK
    assert json.loads(capsys.readouterr().out)["rows"][0]["case"] == MODEL
    assert BENCH.main(["--one", MODEL]) == paper_models.OK
    assert Row.from_json(json.loads(capsys.readouterr().out)) == row_of_model(MODEL)
    Processes(monkeypatch, without=MODEL)
    assert BENCH.main([]) == paper_models.NO
    assert BENCH.main(["--models", "nothing"]) == paper_models.BAD
    assert BENCH.main(["--against", "tensorflow"]) == paper_models.BAD
    Processes(monkeypatch, stop=MODEL)
    assert BENCH.main([]) == paper_models.STOPPED


def test_a_process_that_fails_has_no_row() -> None:
    assert in_a_process("tests.no_such_module", []) is None
