"""What `torch.export` gives learns as it does in PyTorch: each parameter by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer
from explorer.training import SGD, Pretrained, trainable

torch: Any = pytest.importorskip("torch")
pytest.importorskip("onnxscript")


class Words(torch.nn.Module):  # type: ignore[misc]
    """Rows by number, attention, norms of both kinds, a buffer, and one weight twice."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(11, 8)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
        self.norm = torch.nn.BatchNorm1d(5)
        self.out = torch.nn.Linear(8, 11, bias=False)
        self.out.weight = self.words.weight
        self.register_buffer("places", torch.randn(5, 8))

    def forward(self, x: Any) -> Any:
        return self.out(self.norm(self.layer(self.words(x) + self.places)))


class Places(torch.nn.Module):  # type: ignore[misc]
    """Rows by places that the program counts, and rows and columns of a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = torch.nn.Embedding(11, 4), torch.nn.Embedding(9, 4)
        self.weight = torch.nn.Parameter(torch.ones(5, 6))

    def forward(self, x: Any) -> Any:
        rows = self.weight[torch.arange(4)][:, torch.arange(5)]
        return (self.words(x) + self.places(torch.arange(x.shape[1]))) @ rows


class Coder(torch.nn.Module):  # type: ignore[misc]
    """A layer that has rows by number of somebody else's."""

    def __init__(self, words: Any) -> None:
        super().__init__()
        self.words, self.out = words, torch.nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.out(self.words(x)))


class Tied(torch.nn.Module):  # type: ignore[misc]
    """An encoder and a decoder over the same rows, as T5 and BART have them."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = torch.nn.Embedding(11, 8)
        self.encoder, self.decoder = Coder(self.shared), Coder(self.shared)

    def forward(self, x: Any) -> Any:
        return self.decoder(x) @ self.encoder(x).mT @ self.shared.weight[:5]


class Windows(torch.nn.Module):  # type: ignore[misc]
    """A convolution and the norm that PyTorch's exporter would fold into it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(2, 3, 3, padding=1), torch.nn.BatchNorm2d(3)
        self.scale = torch.nn.Parameter(torch.tensor(1.5))

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.gelu(self.norm(self.conv(x))).mean((2, 3)) * self.scale


def drawn(module: Any) -> Any:
    """Nothing in it is 0 or 1, so that nothing is left out unseen."""
    torch.manual_seed(3)
    for name, values in (*module.named_parameters(), *module.named_buffers()):
        if values.is_floating_point():
            values.data.uniform_(0.5, 1.5) if "norm" in name else values.data.normal_(0, 0.3)
    return module.eval()


def stepped(module: Any, x: Any) -> None:
    loss = (module(x) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for p in module.parameters():
            p -= 0.1 * p.grad


@pytest.mark.parametrize("kind", [Words, Places, Tied, Windows])
def test_one_step_is_that_of_pytorch_parameter_by_parameter(kind: Any) -> None:
    module = drawn(kind())
    x = torch.randn(2, 2, 5, 7) if kind is Windows else torch.randint(0, 11, (3, 5))
    model: Pretrained = trainable(torch.export.export(module, (x,)))
    wanted = dict(module.named_parameters())
    assert set(model.names) == set(wanted)
    np.testing.assert_allclose(
        model(model.params, x.numpy()), module(x).detach().numpy(), rtol=1e-4, atol=1e-5
    )
    found = explorer.fit(
        lambda p, a: (model(p, a) ** 2).mean(), model.params, [(x.numpy(),)], SGD(0.1)
    )
    stepped(module, x)
    for name, values in found.params.items():
        right = wanted[name].detach().numpy()
        np.testing.assert_allclose(values, right, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_buffer_is_trained_where_it_is_named() -> None:
    program = torch.export.export(drawn(Words()), (torch.randint(0, 11, (3, 5)),))
    assert trainable(program, ["places"]).names == ("places",)
    assert "places" not in trainable(program).names
