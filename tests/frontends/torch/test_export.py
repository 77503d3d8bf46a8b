"""PyTorch's exported programs give what PyTorch gives, at every size of one compilation."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import explorer
from explorer.errors import BadOption, BoundError, UnsupportedOperator

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

Dims = dict[str, dict[int, Any]]


def dim(name: str, least: int, most: int) -> Any:
    return torch.export.Dim(name, min=least, max=most)


def exported(module: Any, args: tuple[Any, ...], dims: Dims) -> Any:
    return torch.export.export(module.eval(), args, dynamic_shapes=dims)


def agrees(module: Any, program: Any, trials: Sequence[tuple[Any, ...]]) -> explorer.Model:
    """PyTorch's eager answers, with one compilation."""
    model = explorer.load(program)
    compiled = explorer.compile(model)
    for args in trials:
        with torch.no_grad():
            wanted = module(*args)
        named = dict(zip(model.inputs, (a.numpy() for a in args), strict=True))
        found = compiled.run(named)
        given = wanted if isinstance(wanted, tuple) else (wanted,)
        for name, value in zip(model.outputs, given, strict=True):
            np.testing.assert_allclose(found[name], value.numpy(), rtol=1e-4, atol=1e-5)
    return model


class Mlp(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 4)

    def forward(self, x: Any, y: Any) -> Any:
        return self.second(torch.nn.functional.gelu(self.first(x))), y.sum(-1)


class Layer(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(50, 16)
        self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

    def forward(self, ids: Any) -> Any:
        return self.layer(self.words(ids))


class Choice(torch.nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


class Image(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4)

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2).flatten(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def mlp() -> tuple[Any, Any]:
    module = Mlp()
    batch = {0: dim("batch", 1, 64)}
    args = (torch.randn(4, 16), torch.randn(4, 3))
    return module, exported(module, args, {"x": batch, "y": batch})


def test_an_mlp_keeps_names_and_ranges_of_its_dims() -> None:
    module, program = mlp()
    model = agrees(module, program, [(torch.randn(n, 16), torch.randn(n, 3)) for n in (1, 5, 64)])
    assert model.name == "Mlp"
    assert {n: str(t) for n, t in model.inputs.items()} == {
        "x": "float32[batch, 16]",
        "y": "float32[batch, 3]",
    }
    bound = model.program.env.of("batch")
    assert (bound.low, bound.high) == (1, 64)


@pytest.mark.slow
def test_a_transformer_layer_of_dynamic_batch_and_length_with_an_embedding() -> None:
    module = Layer()
    dims = {"ids": {0: dim("batch", 1, 64), 1: dim("seq", 2, 32)}}
    program = exported(module, (torch.zeros(2, 5, dtype=torch.int64),), dims)
    sizes = ((1, 2), (3, 7), (2, 32))
    agrees(module, program, [(torch.randint(0, 50, size),) for size in sizes])


def test_a_branch_stays_a_branch() -> None:
    module = Choice()
    program = exported(module, (torch.randn(4, 3),), {"x": {0: dim("batch", 1, 64)}})
    trials = [(torch.randn(n, 3).abs() * s,) for n in (1, 3) for s in (1, -1)]
    agrees(module, program, trials)


@pytest.mark.slow
def test_a_convolution_with_its_norm() -> None:
    module = Image()
    program = exported(module, (torch.randn(2, 3, 8, 8),), {"x": {0: dim("batch", 1, 8)}})
    agrees(module, program, [(torch.randn(n, 3, 8, 8),) for n in (1, 3)])


def test_bounds_only_narrow_what_was_exported_and_weights_are_what_they_were() -> None:
    module, program = mlp()
    model = explorer.load(program, bounds={"batch": (2, 8)})
    assert model.program.env.of("batch").high == 8
    before = {name: constant.array.copy() for name, constant in model.program.constants.items()}
    with torch.no_grad():
        for parameter in (*module.parameters(), *program.parameters()):
            parameter.fill_(7)
    for name, constant in model.program.constants.items():
        np.testing.assert_array_equal(constant.array, before[name])
    with pytest.raises(BoundError, match=r"exported for 1 \.\. 64"):
        explorer.load(program, bounds={"batch": (1, 65)})
    with pytest.raises(BoundError, match="no dim called 'depth'"):
        explorer.load(program, bounds={"depth": 3})


def test_what_pytorch_cannot_write_as_onnx_is_one_sentence() -> None:
    class Odd(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.linalg.eigvals(x)

    program = torch.export.export(Odd(), (torch.randn(3, 3),))
    with pytest.raises(UnsupportedOperator, match="exporter has no ONNX") as caught:
        explorer.load(program)
    assert "\n" not in str(caught.value)


def test_a_module_is_told_to_be_exported_first() -> None:
    with pytest.raises(BadOption) as caught:
        explorer.load(Choice())
    assert "export" in str(caught.value) + caught.value.try_


@pytest.mark.slow
def test_without_onnxscript_the_extra_is_named() -> None:
    """In a process that cannot import it."""
    script = (
        "import sys; sys.modules['onnxscript'] = None\n"
        "import torch, explorer\n"
        "class Unknown(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.linalg.eigvals(x)\n"
        "program = torch.export.export(Unknown(), (torch.zeros(2, 2),))\n"
        "try: explorer.load(program)\n"
        "except explorer.errors.UnsupportedOperator as e: print(e, '|', e.try_)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=os.environ, check=False
    )
    assert "onnxscript" in found.stdout, found.stderr[-500:]
    assert "ironworks[peers]" in found.stdout
