"""The folder of an export, and the command that writes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import explorer
from explorer.cli import main
from explorer.errors import BadOption, Cancelled
from explorer.portable import write
from tests.portable.cases import compiled

FILES = {"tiny_while.h", "tiny_while.c", "main.c", "CMakeLists.txt", "weights.S", "weights.bin",
         "plan.json", "kernels"}  # fmt: skip


def test_the_folder_holds_the_program_and_its_plan(tmp_path: Path) -> None:
    written = explorer.export(compiled("tiny_while"), tmp_path / "a" / "b")
    assert {p.name for p in written.folder.iterdir()} == FILES
    assert len([*(written.folder / "kernels").iterdir()]) == len(written.program.kernels) == 5
    plan = json.loads((written.folder / "plan.json").read_text())
    assert plan == written.program.to_dict()
    size = (written.folder / "weights.bin").stat().st_size
    assert size == plan["weights"] == len(written.program.weights)
    assert str(written).startswith(f"{written.folder}: tiny_while_run for this-cpu, 5 kernels of ")


def test_a_second_export_replaces_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    explorer.export(compiled("tiny_skip"), folder)
    (folder / "build").mkdir()
    written = explorer.export(compiled("tiny_while"), folder)
    names = {p.name for p in (folder / "kernels").iterdir()}
    assert names == {f"{k.name}.o" for k in written.program.kernels}
    assert (folder / "build").is_dir()


@pytest.mark.parametrize("name", ("notes.txt", "plan.json"))
def test_a_folder_with_other_files_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(BadOption, match="holds other files"):
        explorer.export(compiled("tiny_while"), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    with pytest.raises(BadOption, match="is a file, not a folder"):
        explorer.export(compiled("tiny_while"), tmp_path / name)


def test_a_cancelled_export_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(Cancelled, match="nothing was written"):
        explorer.export(
            compiled("tiny_while"), tmp_path / "out", progress=lambda name, n, of: n < 2
        )
    assert not (tmp_path / "out").exists()


def test_an_interrupted_export_is_seen_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, c = tmp_path / "out", compiled("tiny_while")
    replace = write.os.replace

    def interrupted(new: Path, name: Path) -> None:
        if name.name == "weights.bin":
            raise KeyboardInterrupt
        replace(new, name)

    monkeypatch.setattr(write.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        explorer.export(c, folder)
    monkeypatch.undo()
    assert (folder / "unfinished").exists()
    assert 'message(FATAL_ERROR "this export was interrupted' in (
        (folder / "CMakeLists.txt").read_text()
    )
    explorer.export(c, folder)
    assert {p.name for p in folder.iterdir()} - {"weights.bin.new"} == FILES


def test_a_disk_that_refuses_is_an_error_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(new: Path, name: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(write.os, "replace", full)
    with pytest.raises(BadOption, match="cannot be written: No space left on device"):
        explorer.export(compiled("tiny_while"), tmp_path / "out")


def test_the_command_writes_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "out")
    assert main(["export", "zoo:tiny_bert", "-o", folder, "--bind", "batch=2,seq=4"]) == 0
    text = capsys.readouterr().out
    assert "tiny_bert_run for this-cpu" in text and f"cmake -S {folder} -B" in text
    assert main(["export", "zoo:tiny_bert", "-o", folder, "--json", "--threads", "2"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["function"] == "tiny_bert_run" and data["threads"] == 2
    assert data["sizes"] == {"batch": 1, "seq": 128} and "tiny_bert.h" in data["files"]
    assert main(["export", "zoo:tiny_bert", "-o", folder, "--json", "--any-sizes"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["parameters"] == ["batch", "seq"]


def test_the_command_refuses_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_text("")
    assert main(["export", "zoo:tiny_while", "-o", str(tmp_path)]) != 0
    assert "holds other files" in capsys.readouterr().err
