"""Recurrent models and decoders in PyTorch, in words that TorchScript takes too.

`step` is what a loop repeats: `torch.compile` is given that where it would unroll the loop.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

Weights = dict[str, Tensor]


class Cell(nn.Module):
    """An LSTM cell over the weights of that name."""

    def __init__(self, w: Weights, name: str) -> None:
        super().__init__()
        self.input, self.state = w[f"{name}.input"], w[f"{name}.state"]
        self.bias = w[f"{name}.bias"]

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        both = x @ self.input + h @ self.state + self.bias
        i, f, g, o = both.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class NasCell(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.input, self.state = w["input"], w["state"]

    def forward(self, x: Tensor, m: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i0, i1, i2, i3, i4, i5, i6, i7 = (x @ self.input).chunk(8, 1)
        h0, h1, h2, h3, h4, h5, h6, h7 = (m @ self.state).chunk(8, 1)
        first = ((i0 + h0).sigmoid() * (i1 + h1).relu()).tanh()
        second = ((i2 + h2).sigmoid() + (i3 * h3).relu()).tanh()
        third = ((i4 + h4).tanh() * (i5 + h5).sigmoid()).tanh()
        fourth = ((i6 + h6).tanh() + (i7 + h7).sigmoid()).sigmoid()
        c = (first + c).tanh() * second
        return (c * (third + fourth).tanh()).tanh(), c


class NasRnn(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.step, self.width = NasCell(w), w["state"].shape[0]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        m = torch.zeros(x.shape[1], self.width)
        c = m
        for t in range(x.shape[0]):
            m, c = self.step(x[t], m, c)
        return m, c


class LoopedLstm(nn.Module):
    """All layers of a step, then the next one."""

    def __init__(self, w: Weights) -> None:
        super().__init__()
        count = sum(n.endswith(".bias") for n in w)
        self.cells = nn.ModuleList(Cell(w, f"layers.{n}") for n in range(count))
        self.count, self.width = count, w["layers.0.state"].shape[0]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        zeros = torch.zeros(x.shape[1], self.width)
        hs, cs = [zeros] * self.count, [zeros] * self.count
        answers: list[Tensor] = []
        for t in range(x.shape[0]):
            row = x[t]
            for n, cell in enumerate(self.cells):
                row, cs[n] = cell(row, hs[n], cs[n])
                hs[n] = row
            answers.append(row)
        return torch.stack(answers), hs[-1], cs[-1]


class LayeredLstm(nn.Module):
    """The same weights in PyTorch's own operator."""

    def __init__(self, w: Weights) -> None:
        super().__init__()
        count = sum(n.endswith(".bias") for n in w)
        width = w["layers.0.state"].shape[0]
        self.lstm = nn.LSTM(width, width, count)
        for n in range(count):
            given = (("ih", "input"), ("hh", "state"))
            for theirs, ours in given:
                getattr(self.lstm, f"weight_{theirs}_l{n}").data = w[f"layers.{n}.{ours}"].T.clone()
            getattr(self.lstm, f"bias_ih_l{n}").data = w[f"layers.{n}.bias"].clone()
            getattr(self.lstm, f"bias_hh_l{n}").data.zero_()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        answers, (h, c) = self.lstm(x)
        return answers, h[-1], c[-1]


class Attention(nn.Module):
    """The caches are written in place, and read as far as they are written."""

    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.query, self.key, self.value = w["query"], w["key"], w["value"]
        self.scale = float(self.query.shape[-1]) ** -0.5

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        first = keys.shape[2]
        room = torch.zeros(keys.shape[0], keys.shape[1], 32, keys.shape[3])
        keys, values = torch.cat([keys, room], 2), torch.cat([values, room], 2)
        answers: list[Tensor] = []
        for n in range(32):
            at = first + n
            query, key, value = x @ self.query, x @ self.key, x @ self.value
            keys[:, :, at] = key[:, :, 0]
            values[:, :, at] = value[:, :, 0]
            scores = query @ keys[:, :, : at + 1].transpose(2, 3) * self.scale
            x = scores.softmax(-1) @ values[:, :, : at + 1]
            answers.append(x)
        return torch.stack(answers), keys, values


class Scores(nn.Module):
    """A step of the decoder."""

    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.cell, self.embedding = Cell(w, "cell"), w["embedding"]
        self.weight, self.bias = w["scores.weight"], w["scores.bias"]

    def forward(
        self, word: Tensor, h: Tensor, c: Tensor, ending: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        h, c = self.cell(self.embedding[word], h, c)
        scores = h @ self.weight + self.bias
        scores[:, 0] += ending
        return h, c, scores


class Decoder(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.step = Scores(w)

    def forward(self, h: Tensor, c: Tensor, ending: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        most = ending.shape[0]
        word = torch.ones(h.shape[0], dtype=torch.int64)
        said = torch.zeros(most, h.shape[0], dtype=torch.int64)
        going = word != 0
        at = 0
        more = True
        while more:
            h, c, scores = self.step(word, h, c, ending[at])
            word = torch.where(going, scores.argmax(1), 0)
            going = word != 0
            said[at] = word
            at += 1
            more = bool(going.any()) and at < most
        return said, torch.tensor(at), h


class BeamSearch(nn.Module):
    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.step = Scores(w)

    def forward(self, h: Tensor, c: Tensor, ending: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        most, count, beams = ending.shape[0], h.shape[0], 4
        first = torch.arange(count)[:, None] * beams
        h, c = h.repeat_interleave(beams, 0), c.repeat_interleave(beams, 0)
        word = torch.ones(count, beams, dtype=torch.int64)
        total = torch.full((count, beams), -float("inf"))
        total[:, 0] = 0.0
        said = torch.zeros(most, count, beams, dtype=torch.int64)
        since = torch.arange(beams).expand(most, count, beams).clone()
        at = 0
        more = True
        while more:
            h, c, scores = self.step(word.reshape(-1), h, c, ending[at])
            words = scores.shape[1]
            only_end = torch.full((words,), -float("inf"))
            only_end[0] = 0.0
            gained = scores.log_softmax(1).reshape(count, beams, words)
            gained = torch.where((word == 0)[:, :, None], only_end, gained)
            total, place = (total[:, :, None] + gained).reshape(count, -1).topk(beams, 1)
            source = place // words
            word = place % words
            rows = (first + source).reshape(-1)
            h, c = h[rows], c[rows]
            said[at] = word
            since[at] = source
            at += 1
            more = bool((word != 0).any()) and at < most
        beam = torch.zeros(count, 1, dtype=torch.int64)
        sentences = torch.zeros(most, count, dtype=torch.int64)
        for n in range(most):
            t = most - 1 - n
            sentences[t] = said[t].gather(1, beam)[:, 0]
            beam = since[t].gather(1, beam)
        return sentences, total[:, 0], torch.tensor(at)


class Encoder(nn.Module):
    """A parent from its two children."""

    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.weight, self.bias = w["encode.weight"], w["encode.bias"]

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return torch.tanh(torch.cat([left, right]) @ self.weight + self.bias)


class RecursiveAutoencoder(nn.Module):
    """From the last node to the first, as parents are before their children: TorchScript has no
    recursion.
    """

    def __init__(self, w: Weights) -> None:
        super().__init__()
        self.step = Encoder(w)

    def forward(self, left: Tensor, right: Tensor, leaf: Tensor) -> tuple[Tensor]:
        made = leaf.clone()
        count = leaf.shape[0]
        for n in range(count):
            node = count - 1 - n
            if bool(left[node] >= 0):
                made[node] = self.step(made[left[node]], made[right[node]])
        return (made[0],)
