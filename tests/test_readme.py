"""What the README and the pages that it sends readers to say can be pasted."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from explorer import cli
from tests.frontends.decoders.tiny_models import LLAMA, write_folder
from tests.generation.vocabularies import write_tokenizer

ROOT = Path(__file__).parents[1]
README, SESSION, COMMAND_LINE, OWN_REWRITE = (
    (ROOT / path).read_text(encoding="utf-8")
    for path in ("README.md", "docs/session.md", "docs/command_line.md", "docs/shipped_rewrite.md")
)
COMMANDS = list(
    dict.fromkeys(
        tuple(shlex.split(line, comments=True))
        for line in re.findall(r"^    (ironworks .*)$", README + COMMAND_LINE, re.M)
    )
)
MOST_LINES = 150  # of the README: who wants more is sent on


STAYING = {"lab", "serve"}  # until they are stopped


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the paths of the README hold, and into which it may write."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_notebook_and_page_that_is_linked_is_there_and_every_notebook_is_linked() -> None:
    linked = set(re.findall(r"\]\((?!https?:)([^)#]+)\)", README))
    assert all((ROOT / path).exists() for path in linked), linked
    notebooks = {f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert notebooks <= linked


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) < MOST_LINES


def test_the_command_line_has_every_command_that_does_not_stay() -> None:
    shown = {line.split()[1] for line in re.findall(r"^    (ironworks .*)$", COMMAND_LINE, re.M)}
    assert shown - STAYING == cli.COMMANDS.keys() - STAYING


TEXT_MODEL = {
    **LLAMA,
    "vocab_size": 300,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
}


def write_language_model(path: Path) -> None:
    """A tiny GGUF file with words of its own."""
    gguf_tests = pytest.importorskip("tests.frontends.decoders.test_gguf")
    vocabulary_tests = pytest.importorskip("tests.frontends.decoders.test_vocabulary")
    folder = write_folder(path.parent / "tiny", TEXT_MODEL)
    fields = vocabulary_tests.byte_fields(write_tokenizer(folder))
    plain = {n: v for n, v in fields.items() if not isinstance(v, np.ndarray)}
    gguf_tests.write_gguf(path, folder, None, plain)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(w, marks=pytest.mark.exhaustive if w[1] == "report" else ())
        for w in COMMANDS
        if w[1] not in STAYING
    ],
    ids=lambda words: " ".join(words[1:3]),
)
def test_a_command_of_the_readme_works(
    words: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    if "model.gguf" in words:
        write_language_model(folder / "model.gguf")
    code = cli.main([*words[1:]])
    out, err = capsys.readouterr()
    answers = (0, 1) if words[1:3] == ("cache", "why") else (0,)  # whether it is kept: yes, or no
    assert code in answers and not err and out


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(README, id="README"),
        pytest.param(SESSION, id="session", marks=pytest.mark.exhaustive),
    ],
)
def test_a_session_works(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert blocks
    monkeypatch.chdir(ROOT)
    script = tmp_path / "session.py"  # a file, as a cell is: functions are traced by their text
    script.write_text("\n".join(blocks))
    exec(compile(script.read_text(), str(script), "exec"), {})


SEEN = """
from widgets.session.session import Session
session = Session(c)
op = session.house.order["node_gelu"]
found = session.answer("picture", {"room": "tile_program", "op": op})
print(found["table"]["caption"])
assert "numbers right: 1 lines new, 1 gone" in found["svg"]
"""


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_rewrite_of_ones_own_is_seen_in_the_house(tmp_path: Path) -> None:
    """Every step of the page, in a copy of the tree."""
    for name in ("explorer", "widgets"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tests").symlink_to(ROOT / "tests")

    def run(*words: str, given: str = "") -> str:
        env = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            words, cwd=tmp_path, env=env, input=given, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    (rewrite, house), (diff,) = (
        re.findall(rf"```{kind}\n(.*?)```", OWN_REWRITE, re.S) for kind in ("python", "diff")
    )
    (command,) = re.findall(r"^    ironworks (.*)$", OWN_REWRITE, re.M)
    (path,) = re.findall(r"this one is `(.*?)`", OWN_REWRITE)
    (tmp_path / path).write_text(rewrite)
    run("git", "apply", "-", given=diff)
    told = run(sys.executable, "-m", "explorer", *shlex.split(command))
    before, after = told.split("\n  numbers right\n")
    assert "(0.5 * (erf(" in before and "+ 1.0) * 0.5)" in after and "0.5 * (" not in after
    said = run(sys.executable, "-c", house + SEEN)
    assert "changed by" in said and "numbers right" in said
    run(sys.executable, "-m", "explorer", "compile", "tests/data/tiny_bert.onnx", "--check")
