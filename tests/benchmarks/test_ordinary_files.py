"""Files of packages: unpacked, taken through all stages, and what went wrong said by its stage."""

from __future__ import annotations

import tarfile
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from explorer.errors import AnswerMismatch
from tests.benchmarks.ordinary_files import (
    FileRow,
    error_of,
    examine,
    files_in,
    row_of_file,
    summary,
    text_of,
    with_sizes,
)


def written(path: Path, op: str = "Relu", domain: str = "") -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node(op, ["x"], ["y"], domain=domain)], "g", [x], [y])
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return path


def test_folders_wheels_and_source_archives_are_looked_into(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    model = written(inside / "a.onnx")
    (inside / "b.txt").write_text("no model")
    with zipfile.ZipFile(tmp_path / "p.whl", "w") as archive:
        archive.write(model, "p/one.onnx")
        archive.write(inside / "b.txt", "p/b.txt")
    with tarfile.open(tmp_path / "p.tar.gz", "w:gz") as source:
        source.add(model, "p/two.onnx")
    paths = [inside, tmp_path / "p.whl", tmp_path / "p.tar.gz", model]
    found = [p.name for p in files_in(paths, tmp_path / "unpacked")]
    assert found == ["a.onnx", "one.onnx", "two.onnx", "a.onnx"]


def test_a_file_goes_through_all_stages(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    rows: list[FileRow] = []
    examine(written(tmp_path / "relu.onnx"), 0.0, rows.append)
    last = rows[-1]
    assert last.is_right and last.file.endswith("/relu.onnx") and last.peak_bytes > 0
    assert len(last.shapes) == len(last.errors) == len(last.ratios) == 3 and max(last.errors) == 0
    assert last.symbolic_s and last.static_s and min(last.ratios) > 0
    facts = summary(rows[-1:])
    assert facts["right"] == 1 and facts["shapes raced"] == 3
    assert "relu.onnx  right" in text_of([last])


def test_what_goes_wrong_is_said_by_its_stage(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    rows: list[FileRow] = []
    examine(broken, 0.0, rows.append)
    assert not rows[-1].is_right and rows[-1].stage == "onnxruntime" and rows[-1].problem
    assert f"broken.onnx at onnxruntime: {rows[-1].problem}" in text_of(rows[-1:])


def test_a_process_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    row = row_of_file(written(tmp_path / "relu.onnx"), 0.05, 4096, 0.0)
    assert row.problem == "took more than 0.05 s" and row.stage == "load"


def test_symbols_are_replaced_by_sizes(tmp_path: Path) -> None:
    path = written(tmp_path / "relu.onnx")
    fixed = onnx.load(with_sizes(path, {"x": np.zeros((3, 4), np.float32)}, tmp_path / "f.onnx"))
    assert [d.dim_value for d in fixed.graph.input[0].type.tensor_type.shape.dim] == [3, 4]


def test_an_answer_may_differ_twice_as_much_as_optimizations_change_it() -> None:
    want, plain = {"y": np.array([1.0, 2.0])}, {"y": np.array([1.0, 2.001])}
    exact = partial(dict, y=np.array([1.0, 2.0]))
    assert error_of({"y": np.array([1.0, 2.0019])}, want, plain, exact) == pytest.approx(0.0019)
    assert error_of({"y": np.array([1.0, 2.0001])}, want, want, exact) == pytest.approx(1e-4)
    with pytest.raises(AnswerMismatch):
        error_of({"y": np.array([1.0, 2.003])}, want, plain, exact)
    with pytest.raises(AnswerMismatch):
        error_of({"y": np.array([1.0, np.nan])}, want, plain, exact)


def test_the_exact_answer_judges_where_onnxruntime_is_further_from_it() -> None:
    want, exact = {"y": np.array([1.0, 2.003])}, partial(dict, y=np.array([1.0, 2.0]))
    assert error_of({"y": np.array([1.0, 2.00001])}, want, want, exact) == pytest.approx(1e-5)
    with pytest.raises(AnswerMismatch):
        error_of({"y": np.array([1.0, 2.001])}, want, want, exact)
