"""What the README says can be pasted."""

import re
import shlex
from pathlib import Path

import pytest

from explorer import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line, comments=True) for line in re.findall(r"^    (ironworks .*)$", README, re.M)
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the paths of the README hold, and into which it may write."""
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_readme_shows_every_command_that_does_not_stay() -> None:
    shown = {words[1] for words in COMMANDS}
    assert shown == cli.COMMANDS.keys() - {"lab"}


@pytest.mark.slow
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[1:3]))
def test_a_command_of_the_readme_works(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("onnxruntime")
    code = cli.main(words[1:])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "") and out


@pytest.mark.slow
def test_the_first_session_works(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.S)
    monkeypatch.chdir(ROOT)
    exec(compile("\n".join(blocks), "README.md", "exec"), {})
