"""`ironworks bug-report` says what it takes to find a fault, and not whose machine it is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.cli import main
from explorer.cli.last_fault import environment, load_last_fault, without_paths
from explorer.errors import fault
from explorer.ir.program import Program
from widgets.session.jobs import error_parts

ROOT = Path(explorer.__file__).parents[1]
Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    """A shell of somebody whose name, folders and secrets must not leave the machine."""
    home = tmp_path / "anna"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("IRONWORKS_CACHE", str(home / "kept"))
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")

    def run(*words: str) -> tuple[int, str, str]:
        code = main(words)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(program: Program) -> Program:
        raise KeyError("a name of ours")

    monkeypatch.setattr("explorer.compiler.pipeline.Legalize", lambda *_: broken)


def is_private(text: str, home: Path) -> bool:
    """Whether nothing of the user's is in a text."""
    return not any(w in text for w in (str(home), "anna", "hunter2", "SECRET_TOKEN", str(ROOT)))


def test_the_sentence_of_a_fault_names_the_command() -> None:
    assert "`ironworks bug-report`" in str(fault(KeyError("x"), "the step 'weld'"))


def test_the_last_fault_is_told_with_all_that_finds_it(
    planted: None, shell: Shell, tmp_path: Path
) -> None:
    model = tmp_path / "anna" / "mine.onnx"
    model.write_bytes((ROOT / "tests/data/tiny_skip.onnx").read_bytes())
    assert shell("compile", str(model), "--set", "roller.top_k=3")[0] == 70
    code, out, err = shell("bug-report")
    assert (code, err) == (0, "")
    assert "ironworks compile ~/mine.onnx --set roller.top_k=3" in out
    assert "the step 'legalise to kernels'" in out and "KeyError: 'a name of ours'" in out
    assert "in broken" in out and "<ironworks>/explorer/" in out
    assert f"numpy {np.__version__}" in out and "this-cpu" in out
    assert "NUMBA_NUM_THREADS 2" in out and "IRONWORKS_CACHE ~/kept" in out
    assert is_private(out, tmp_path)


@pytest.mark.exhaustive
def test_compiling_a_model_is_reported_with_its_options(
    planted: None, shell: Shell, tmp_path: Path
) -> None:
    code, out, _ = shell("bug-report", "zoo:alexnet", "--set", "rammer.threads=3", "--json")
    found = json.loads(out)
    assert code == 0 and "the step 'legalise" in found["trouble"]["step"]
    assert "in broken" in found["trouble"]["traceback"]
    assert "threads=3" in found["options"]["rammer"]
    assert is_private(out, tmp_path)


def test_a_report_is_written_where_it_is_asked_for(shell: Shell, tmp_path: Path) -> None:
    code, out, _ = shell("bug-report", "-o", "report.txt")
    text = (tmp_path / "anna" / "report.txt").read_text()
    assert code == 0 and "report.txt" in out
    assert text.startswith("Ironworks bug report") and "no fault is stored" in text


def test_a_model_that_compiles_has_no_fault(shell: Shell) -> None:
    code, out, _ = shell("bug-report", str(ROOT / "tests/data/tiny_skip.onnx"))
    assert code == 0 and "it compiles without a fault" in out and "Traceback" not in out


def test_a_model_that_is_refused_is_no_fault_of_ours(shell: Shell, tmp_path: Path) -> None:
    bad = tmp_path / "anna" / "bad.onnx"
    bad.write_bytes(b"no model")
    code, out, _ = shell("bug-report", str(bad))
    assert code == 0 and "not a fault of Ironworks" in out and is_private(out, tmp_path)


def test_options_that_there_are_not_are_bad_usage(shell: Shell) -> None:
    assert shell("bug-report", "--set", "roller.nothing=3")[0] == 2
    assert shell("bug-report", "zoo:alexnet", "zoo:alexnet")[0] == 2


def test_a_fault_that_the_house_told_is_reported_too(shell: Shell) -> None:
    try:
        raise IndexError("a place of ours")
    except IndexError as problem:
        error_parts(problem, "the question 'operator'")
    assert "the question 'operator'" in shell("bug-report")[1]


@pytest.mark.exhaustive
def test_a_cache_that_others_can_write_keeps_no_fault(
    shell: Shell, tmp_path: Path, planted: None
) -> None:
    kept = tmp_path / "anna" / "kept"
    kept.mkdir()
    kept.chmod(0o777)
    assert shell("compile", "zoo:alexnet")[0] in (2, 70)
    kept.chmod(0o700)
    assert load_last_fault() is None


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("/home/bert/models/m.onnx", "~/models/m.onnx"),
        ("/Users/bert", "~"),
        ('File "/data/bert/net.py", line 3', 'File "…/net.py", line 3'),
        ("/usr/lib/x/y.so:1 /tmp/z/", "…/y.so:1 …/"),
        ("float32/int8, 3 / 4, a/b/c, https://x.org/a/b", None),
        ("1 B/s and/or GB/s", None),
    ],
)
def test_folders_are_left_out_of_a_text(text: str, without: str | None) -> None:
    assert without_paths(text) == (text if without is None else without)


def test_only_variables_of_ours_and_of_numba_are_told() -> None:
    given: dict[str, Any] = {"NUMBA_OPT": "3", "PATH": "/bin", "IRONWORKS_DEBUG": "1", "X": "y"}
    assert environment(given) == {"IRONWORKS_DEBUG": "1", "NUMBA_OPT": "3"}
