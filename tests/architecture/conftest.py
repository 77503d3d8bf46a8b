"""What every addition is looked at with: a model that uses it, the shell, the house."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from explorer import cli
from explorer.ops import user_operators
from explorer.passes import registry

Shell = Callable[..., str]
File = Callable[..., str]


@pytest.fixture(autouse=True)
def own_registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone afterwards."""
    monkeypatch.setattr(registry, "_passes", registry._passes.copy())
    yield
    for name in list(user_operators.user_operators()):
        user_operators.forget(name)


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    """What a command prints; it must end well."""

    def run(*words: str) -> str:
        code = cli.main(words)
        out, err = capsys.readouterr()
        assert (code, err) == (0, "")
        return out

    return run


@pytest.fixture
def file(tmp_path: Path) -> File:
    """An ONNX file of one operator of the domain "own": `y = Op(x)`."""

    def write(op: str, dtype: int, shape: tuple[Any, ...], result: tuple[Any, ...]) -> str:
        x = helper.make_tensor_value_info("x", dtype, shape)
        y = helper.make_tensor_value_info("y", dtype, result)
        node = helper.make_node(op, ["x"], ["y"], name="the_node", domain="own")
        graph = helper.make_graph([node], f"one_{op.lower()}", [x], [y])
        known = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
        path = tmp_path / f"{op}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=known, ir_version=8), path)
        return str(path)

    return write


FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32
