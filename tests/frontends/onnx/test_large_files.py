"""Large external data comes to a file of our own, of which what is read becomes memory: what others
do to theirs meanwhile changes nothing.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer
from explorer.errors import BadModelFile
from explorer.frontends.load import load
from tests.frontends.models import model, saved, value

ROWS, WIDTH = 9_000_001, 64  # float32: 2.3 GB


def external(rows: int, offset: int = 0, location: str = "weights.bin") -> onnx.ModelProto:
    """Rows of a table that lies in another file."""
    nodes = [helper.make_node("Gather", ["table", "ids"], ["y"])]
    made = model(nodes, [value("ids", ["n"], TensorProto.INT64)], ["y"])
    tensor = made.graph.initializer.add()
    tensor.name, tensor.data_type = "table", TensorProto.FLOAT
    tensor.dims.extend([rows, WIDTH])
    tensor.data_location = TensorProto.EXTERNAL
    pairs = {"location": location, "offset": str(offset), "length": str(rows * WIDTH * 4)}
    for key, text in pairs.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, text
    return made


def sparse(folder: Path, size: int) -> Path:
    """A file of zeros that takes no room on the disk."""
    path = folder / "weights.bin"
    with path.open("wb") as file:
        file.truncate(size)
    return path


def own_bytes() -> int:
    """Memory of this process that is no part of a file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counts memory as Linux does")
def test_a_table_of_more_than_two_gigabytes_takes_little_memory(tmp_path: Path) -> None:
    weights = sparse(tmp_path, ROWS * WIDTH * 4)
    rows = {0: 1.5, 7_654_321: -2.25, ROWS - 1: 4.0}
    with weights.open("r+b") as file:
        for row, number in rows.items():
            file.seek(row * WIDTH * 4)
            file.write(np.full(WIDTH, number, np.float32).tobytes())
    path = saved(external(ROWS), tmp_path)
    before = own_bytes()
    compiled = explorer.compile(load(path))
    ids = np.array([7_654_321, ROWS - 1, 0, -1])
    found = compiled.run({"ids": ids})["y"]
    assert own_bytes() - before < 1 << 30
    np.testing.assert_array_equal(found[:, 0], [-2.25, 4.0, 1.5, 4.0])


def test_external_data_cannot_be_written(tmp_path: Path) -> None:
    sparse(tmp_path, 5000 * WIDTH * 4)
    table = load(saved(external(5000), tmp_path)).program.constants["table"].array
    with pytest.raises(ValueError, match="read-only"):
        table[0, 0] = 1


def test_data_at_an_odd_place_of_the_file_is_read(tmp_path: Path) -> None:
    sparse(tmp_path, 5000 * WIDTH * 4 + 4)
    table = load(saved(external(5000, offset=4), tmp_path)).program.constants["table"].array
    assert table.ctypes.data % 64 == 0


def test_a_large_tensor_must_lie_in_its_file(tmp_path: Path) -> None:
    sparse(tmp_path, 4999 * WIDTH * 4)
    with pytest.raises(BadModelFile, match=r"lies outside of weights\.bin"):
        load(saved(external(5000), tmp_path))


@pytest.mark.parametrize("location", ["../weights.bin", "/tmp/weights.bin", ""])
def test_data_outside_of_the_folder_is_refused(location: str, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    sparse(tmp_path, 5000 * WIDTH * 4)
    with pytest.raises(BadModelFile, match="outside of the model's folder"):
        load(saved(external(5000, location=location), tmp_path / "inner"))


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    sparse(tmp_path, 5000 * WIDTH * 4)
    (inner / "weights.bin").symlink_to(tmp_path / "weights.bin")
    with pytest.raises(BadModelFile, match="outside of the model's folder"):
        load(saved(external(5000), inner))
