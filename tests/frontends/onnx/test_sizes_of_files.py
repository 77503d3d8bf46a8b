"""A file is judged by its bytes before anything is made of it: what would fill the memory, never
ends, or changes meanwhile is refused in one sentence.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.errors import BadModelFile, TooLarge
from explorer.frontends.load import load
from explorer.frontends.onnx import plain_file
from explorer.frontends.onnx.onnx_file import encode_field, read_onnx
from tests.frontends.models import model, relu, saved, value

MANY = 6 << 30


def sparse_field(path: Path, number: int, before: bytes, after: bytes = b"") -> Path:
    """A file with a field of 6 GB that takes no room on the disk."""
    tag = encode_field(number, b"")[:-1]
    length = bytearray()
    rest = MANY
    while rest >= 0x80:
        length.append(rest & 0x7F | 0x80)
        rest >>= 7
    length.append(rest)
    with path.open("wb") as file:
        file.write(before + tag + bytes(length))
        file.seek(MANY, os.SEEK_CUR)
        file.write(after)
        file.truncate()
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRONWORKS_MEMORY", "64MiB")


DOC_STRING, UNKNOWN, PRODUCER = 6, 1000, 2


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("number", [DOC_STRING, UNKNOWN])
def test_gigabytes_that_no_model_needs_are_skipped(number: int, tmp_path: Path) -> None:
    path = sparse_field(tmp_path / "m.onnx", number, b"", relu().SerializeToString())
    assert load(path).outputs == ("y",)


@pytest.mark.usefixtures("small")
def test_gigabytes_that_would_be_parsed_are_refused(tmp_path: Path) -> None:
    path = sparse_field(tmp_path / "m.onnx", PRODUCER, relu().SerializeToString())
    with pytest.raises(TooLarge, match=r"m\.onnx, without its large tensors, takes 384 GiB"):
        load(path)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("inside", [False, True])
def test_a_file_that_grows_when_it_is_parsed_is_refused(inside: bool, tmp_path: Path) -> None:
    empty_nodes = encode_field(1, b"") * (1 << 20)  # two bytes each, a hundred and more in memory
    if inside:
        branch = encode_field(1, b"then_branch") + encode_field(6, empty_nodes)
        empty_nodes = encode_field(1, encode_field(4, b"If") + encode_field(5, branch))
    path = tmp_path / "m.onnx"
    path.write_bytes(relu().SerializeToString() + encode_field(7, empty_nodes))
    with pytest.raises(TooLarge, match="without its large tensors"):
        load(path)


def test_fields_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.frontends.onnx.onnx_file.MOST_FIELDS", 1000)
    path = tmp_path / "m.onnx"
    path.write_bytes(relu().SerializeToString() + encode_field(UNKNOWN, b"") * 2000)
    with pytest.raises(TooLarge, match="more than 1000 fields"):
        load(path)


# External data.


def external(folder: Path, rows: int, places: list[tuple[str, int]]) -> Path:
    """The sum of the columns of tensors that lie in other files."""
    names = [f"w{n}" for n in range(len(places))]
    made = model([helper.make_node("Sum", ["x", *names], ["y"])], [value("x", [rows])], ["y"])
    for name, (location, offset) in zip(names, places, strict=True):
        tensor = made.graph.initializer.add(name=name, data_type=TensorProto.FLOAT, dims=[rows])
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in (("location", location), ("offset", offset), ("length", 4 * rows)):
            tensor.external_data.add(key=key, value=str(text))
    return saved(made, folder)


def hollow(path: Path, size: int) -> Path:
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.mark.usefixtures("small")
def test_external_data_is_judged_by_what_it_claims(tmp_path: Path) -> None:
    hollow(tmp_path / "w.bin", 100 << 20)
    path = external(tmp_path, 25 << 20, [("w.bin", 0)])
    with pytest.raises(TooLarge, match=r"model\.onnx, read up to its tensor 'w0', takes 100 MiB"):
        load(path)


def test_a_claim_beyond_the_file_is_refused_at_any_budget(tmp_path: Path) -> None:
    hollow(tmp_path / "w.bin", 1 << 20)
    with pytest.raises(BadModelFile, match=r"'w0' lies outside of w\.bin"):
        load(external(tmp_path, 4 << 30, [("w.bin", 0)]))


@pytest.mark.usefixtures("small")
def test_many_tensors_of_one_place_are_one_array(tmp_path: Path) -> None:
    hollow(tmp_path / "w.bin", 1 << 20)
    found = read_onnx(external(tmp_path, 1 << 18, [("w.bin", 0)] * 300)).initializers
    assert len({a.ctypes.data for a in found.values()}) == 1


@pytest.mark.usefixtures("small")
def test_many_tensors_of_one_file_that_overlap_are_counted_each(tmp_path: Path) -> None:
    hollow(tmp_path / "w.bin", 2 << 20)
    places = [("w.bin", 64 * n) for n in range(300)]
    with pytest.raises(TooLarge, match="up to its tensor 'w63'"):
        load(external(tmp_path, 1 << 18, places))


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_file_that_shrinks_or_is_rewritten_changes_nothing_of_an_open_model(
    on_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if on_disk:
        monkeypatch.setattr("explorer.frontends.onnx.tensors.ON_DISK_BYTES", 1)
    rows = 1 << 19  # 2 MiB: many pages
    weights = tmp_path / "w.bin"
    weights.write_bytes(np.full(rows, 2, np.float32).tobytes())
    loaded = load(external(tmp_path, rows, [("w.bin", 0)]))
    weights.write_bytes(np.full(rows, 5, np.float32).tobytes())
    compiled = explorer.compile(loaded)
    x = np.ones(rows, np.float32)
    assert set(compiled.run(x)["y"].tolist()) == {3.0}
    os.truncate(weights, 0)
    assert set(compiled.run(x)["y"].tolist()) == {3.0}
    loaded.program.constants["w0"].array.sum()


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = hollow(tmp_path / "w.bin", 1 << 20)
    path = external(tmp_path, 1 << 18, [("w.bin", 0)])
    read_into = plain_file.PlainFile.read_into

    def and_then(file: plain_file.PlainFile, target: np.ndarray, first: int) -> bool:
        done = read_into(file, target, first)
        weights.write_bytes(b"new" * 1000)
        return done

    monkeypatch.setattr(plain_file.PlainFile, "read_into", and_then)
    with pytest.raises(BadModelFile, match=r"w\.bin was changed meanwhile; load it again"):
        load(path)


@pytest.mark.parametrize(
    "location", ["a\0b", "loop", "x" * 5000, "folder", "pipe", "socket", "loop/w.bin"]
)
def test_what_is_no_file_is_not_external_data(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as open_socket:
        monkeypatch.chdir(tmp_path)  # the name of a socket is short
        open_socket.bind("socket")
        with pytest.raises(BadModelFile, match=r"not a (file|valid path)"):
            load(external(tmp_path, 4, [(location, 0)]))


# The model's own file.


def test_a_model_that_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    for path in (tmp_path / "pipe.onnx", Path("/dev/zero"), tmp_path):
        with pytest.raises(BadModelFile, match=r"not a file|no folder of a language model"):
            load(path)


@pytest.mark.parametrize("name", ["a\0b.onnx", "x" * 5000, "loop.onnx"])
def test_a_path_that_cannot_be_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "loop.onnx").symlink_to(tmp_path / "loop.onnx")
    with pytest.raises(BadModelFile, match="cannot be read"):
        load(tmp_path / name)


def test_a_model_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = relu()
    made.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(1000, np.float32), "w"))
    path = saved(made, tmp_path)
    read_into = plain_file.PlainFile.read_into

    def and_then(file: plain_file.PlainFile, target: np.ndarray, first: int) -> bool:
        os.truncate(path, 100)
        return read_into(file, target, first)

    monkeypatch.setattr(plain_file.PlainFile, "read_into", and_then)
    with pytest.raises(BadModelFile, match="is truncated inside of 'w'"):
        load(path)
