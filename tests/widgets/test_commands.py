import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from explorer.errors import BadOption, BoundError, IronworksError
from widgets.page import jupyter, serving
from widgets.page.commands import lab, report

BERT = Path(__file__).parents[1] / "data" / "tiny_bert.onnx"


@pytest.mark.exhaustive
def test_a_report_of_a_real_model_is_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.html"
    flags = ["--no-code", "--json"]
    assert report(["zoo:tiny_skip", "-o", str(path), *flags]) == 0  # SqueezeNet: test_readme.py
    said = json.loads(capsys.readouterr().out)
    assert said["report"] == str(path) and said["bytes"] == path.stat().st_size
    text = path.read_text("utf-8")
    assert "tiny_skip" in text and "per run on this-cpu" in text
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_report_that_cannot_be_kept_is_refused_before_anything_is_compiled(
    tmp_path: Path,
) -> None:
    with pytest.raises(BadOption, match="cannot be written"):
        report(["no such model", "-o", str(tmp_path / "missing" / "report.html")])
    with pytest.raises(BadOption, match="cannot be written"):
        report(["no such model", "-o", str(tmp_path)])


def test_a_report_of_sizes_outside_of_their_bounds_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    with pytest.raises(BoundError, match="seq"):
        report([str(BERT), "-o", str(path), "--bind", "batch=1,seq=100000"])
    assert not path.exists()


TOUR = Path(__file__).parents[2] / "notebooks" / "00_tour.ipynb"


def test_lab_opens_the_tour_or_what_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    called: list[list[str]] = []
    measuring: list[str] = []

    def call(command: list[str], **_: Any) -> int:
        called.append(command)
        return 0

    class Measuring:
        """The process that measures this machine when it is idle: begun, and ended with the lab."""

        def __init__(self, command: list[str]) -> None:
            assert command == [sys.executable, "-m", "explorer.measure.in_background"]
            measuring.append("begun")

        def terminate(self) -> None:
            measuring.append("ended")

        def wait(self) -> None:
            pass

    monkeypatch.setattr(subprocess, "call", call)
    monkeypatch.setattr(subprocess, "Popen", Measuring)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    own = tmp_path / "own.ipynb"
    own.write_text("{}")
    assert lab([]) == 0 and lab([str(own), "--", "--no-browser"]) == 0
    head = jupyter.command("jupyterlab")
    assert called[0][:-1] == head and called[0][-1].endswith("notebooks/00_tour.ipynb")
    assert called[1] == [*head, str(own), "--no-browser"]
    monkeypatch.chdir(tmp_path)  # where no notebooks are
    assert lab([]) == 0 and Path(called.pop()[-1]).samefile(TOUR)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert lab([str(own)]) == 0
    assert called[2] == [*head, "--allow-root", str(own)]
    assert measuring == ["begun", "ended"] * 4


@pytest.mark.few(1)
@pytest.mark.parametrize("server", ["jupyterlab", "voila"])
def test_a_server_begins_without_the_grammars_of_addresses(server: str) -> None:
    head = jupyter.command(server)
    told = [head[0], "-X", "importtime", *head[1:], "--version"]
    done = subprocess.run(told, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip() == version(server)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "jsonschema" in imported and "lark" not in imported  # which makes the grammars


def test_lab_refuses_a_notebook_that_is_not_there() -> None:
    with pytest.raises(BadOption, match="no notebook"):
        lab(["nowhere.ipynb"])


@pytest.fixture
def voila(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Mapping[str, str]]]:
    """What would be begun, as if Voila were installed."""
    begun: list[tuple[list[str], Mapping[str, str]]] = []
    monkeypatch.setattr(serving, "find_spec", lambda name: object())
    monkeypatch.setattr(
        serving, "_until_stopped", lambda command, variables: begun.append((command, variables))
    )
    return begun


def test_a_house_is_served_on_this_machine_with_idle_limits_and_no_code(
    voila: list[tuple[list[str], Mapping[str, str]]],
) -> None:
    serving.serve(["zoo:tiny_skip", "--idle", "5", "--port", "9000", "--set", "roller.top_k=3"])
    command, variables = voila.pop()
    assert command[:4] == jupyter.command("voila")
    manager = "--MappingKernelManager"
    assert {"--port=9000", "--strip_sources=True", f"{manager}.cull_idle_timeout=300"} <= {*command}
    asked = json.loads(variables[serving.REQUEST])
    assert asked["arguments"][0] == "zoo:tiny_skip" and asked["folder"] == os.getcwd()
    serving.serve(["zoo:tiny_skip", "--", "--port=9001", f"{manager}.cull_interval=1"])
    command, _ = voila.pop()
    assert [c for c in command if c.startswith("--port")] == ["--port=9001"]
    assert sum("cull_interval" in c for c in command) == 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["zoo:tiny_skip", "--idle", "0"], "--idle takes 1 to 1440 minutes, not 0"),
        (["zoo:tiny_skip", "--port", "70000"], "--port takes 1 to 65535, not 70000"),
        (["zoo:tiny_skip", "--set", "roller.top_k=0"], "roller.top_k is a whole number"),
        (["zoo:tiny_skip", "--set", "hardware.unts=3"], "did you mean 'units'"),
        (["nowhere.onnx"], "nowhere.onnx"),
    ],
)
def test_what_a_visitor_could_not_mend_is_told_before_a_server_begins(
    voila: list[tuple[list[str], Mapping[str, str]]], given: list[str], said: str
) -> None:
    with pytest.raises(IronworksError, match=said.replace(".", r"\.")):
        serving.serve(given)
    assert voila == []


def test_without_voila_nothing_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "find_spec", lambda name: None)
    with pytest.raises(BadOption, match="voila is not installed") as told:
        serving.serve(["zoo:tiny_skip"])
    assert "make lab in a checkout" in str(told.value)


def test_a_kernel_shows_what_it_was_begun_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"arguments": ["zoo:tiny_skip", "--target", "v100"], "folder": os.getcwd()}
    monkeypatch.setenv(serving.REQUEST, json.dumps(told))
    house = serving.house()
    assert house.session.now.compiled.device.name == "v100"


def test_a_served_page_runs_no_code_of_its_visitors(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"arguments": ["zoo:tiny_skip"], "folder": os.getcwd()}
    monkeypatch.setenv(serving.REQUEST, json.dumps(told))
    session = serving.house().session
    call = next(n for n, c in enumerate(session.house.calls))
    source = session.answer("edit", {"call": call})["source"]
    session.answer("keep_edit", {"call": call, "source": f"{source}# mine\n"})
    with pytest.raises(BadOption, match="a served page runs no code of its visitors"):
        session.answer("try_edit", {"call": call})
