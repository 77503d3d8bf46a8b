"""The language model `llama` in PyTorch with a static cache, and as onnxruntime's two graphs.

`run` of each is a prefill and `steps` steps, all greedy, and gives the words.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

Arrays = dict[str, np.ndarray]
Run = Callable[[], Any]
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


class Llama(nn.Module):
    """All but the attention over a cache, which `attend` does for a layer."""

    def __init__(self, w: Arrays, heads: int, most: int) -> None:
        super().__init__()
        self.layers = sum(n.endswith(".query") for n in w)
        self.embedding = torch.from_numpy(w["embedding"])
        self.each = self.embedding.shape[1] // heads
        self.groups = w["0.key"].shape[1] // self.each
        self.norms = {n: torch.from_numpy(v) for n, v in w.items() if v.ndim == 1}
        self.matrices = {
            n: torch.from_numpy(v).T.contiguous()
            for n, v in w.items()
            if v.ndim == 2 and n != "embedding"
        }
        waves = 10000.0 ** -(np.arange(0, self.each, 2) / self.each)
        angles = np.arange(most)[:, None] * waves
        self.cos = torch.from_numpy(np.cos(angles).astype(np.float32))
        self.sin = torch.from_numpy(np.sin(angles).astype(np.float32))

    def norm(self, x: Tensor, name: str) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self.norms[name], 1e-5)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (-1, self.each)).transpose(1, 2)

    def turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        a, b = x.chunk(2, 3)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], 3)

    def forward(self, words: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """The word that goes on, [batch, 1]."""
        x = F.embedding(words, self.embedding)
        for n in range(self.layers):
            w = {k.split(".")[1]: v for k, v in self.matrices.items() if k.startswith(f"{n}.")}
            h = self.norm(x, f"{n}.attention.norm")
            q, k, v = (self.split(F.linear(h, w[name])) for name in ("query", "key", "value"))
            read = attend(n, self.turned(q, cos, sin), self.turned(k, cos, sin), v)
            x = x + F.linear(read.transpose(1, 2).flatten(2), w["answer"])
            h = self.norm(x, f"{n}.inner.norm")
            inner = F.silu(F.linear(h, w["gate"])) * F.linear(h, w["up"])
            x = x + F.linear(inner, w["down"])
        scores = F.linear(self.norm(x[:, -1], "norm"), self.matrices["scores"])
        return scores.argmax(1, keepdim=True)


class Decoding(nn.Module):
    """The caches are written in place: read as far as they are written, or, for a compiler that
    wants one shape for all steps, whole and masked.
    """

    def __init__(self, w: Arrays, x: Arrays, masked: bool) -> None:
        super().__init__()
        self.model = Llama(w, int(x["heads"]), int(x["most"]))
        self.prompt, self.steps = torch.from_numpy(x["prompt"]), int(x["steps"])
        batch, self.n = self.prompt.shape
        self.room = self.n + self.steps
        shape = (self.model.layers, batch, self.model.groups, self.room, self.model.each)
        self.keys = list(torch.zeros(shape).unbind())
        self.values = list(torch.zeros(shape).unbind())
        self.places = torch.arange(self.room)
        self.step = torch.compile(self.masked, dynamic=False) if masked else self.sliced
        self.ats = [torch.tensor([self.n + i]) if masked else self.n + i for i in range(self.steps)]

    def prefill(self) -> Tensor:
        def attend(n: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.keys[n][:, :, : self.n] = k
            self.values[n][:, :, : self.n] = v
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

        return self.model(self.prompt, self.model.cos[: self.n], self.model.sin[: self.n], attend)

    def sliced(self, word: Tensor, at: int) -> Tensor:
        def attend(n: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.keys[n][:, :, at] = k[:, :, 0]
            self.values[n][:, :, at] = v[:, :, 0]
            keys, values = self.keys[n][:, :, : at + 1], self.values[n][:, :, : at + 1]
            return F.scaled_dot_product_attention(q, keys, values, enable_gqa=True)

        return self.model(word, self.model.cos[at], self.model.sin[at], attend)

    def masked(self, word: Tensor, at: Tensor) -> Tensor:
        seen = (self.places <= at)[None]

        def attend(n: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            self.keys[n].index_copy_(2, at, k)
            self.values[n].index_copy_(2, at, v)
            return F.scaled_dot_product_attention(
                q, self.keys[n], self.values[n], attn_mask=seen, enable_gqa=True
            )

        return self.model(word, self.model.cos[at], self.model.sin[at], attend)

    @torch.inference_mode()
    def forward(self) -> list[np.ndarray]:
        word = self.prefill()
        said = torch.zeros(word.shape[0], self.steps, dtype=torch.int64)
        for i, at in enumerate(self.ats):
            said[:, i] = word[:, 0]
            word = self.step(word, at)
        return [said.numpy()]


class Growing(Llama):
    """Caches go in and come out a word longer, as a graph without state has them."""

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.norms[name]

    def repeated(self, x: Tensor, shared: int) -> Tensor:
        return x if shared == 1 else x.repeat_interleave(shared, 1)

    def forward(self, words: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        after = []
        n = words.shape[1]
        at = caches[0].shape[2] if caches else 0
        cos, sin = self.cos[at : at + n], self.sin[at : at + n]

        def attend(m: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            if caches:
                k, v = torch.cat([caches[2 * m], k], 2), torch.cat([caches[2 * m + 1], v], 2)
            after.extend([k, v])
            shared = q.shape[1] // k.shape[1]
            k, v = self.repeated(k, shared), self.repeated(v, shared)
            scores = q @ k.transpose(2, 3) * self.each**-0.5
            if not caches:
                scores = scores + torch.full((n, n), -1e30).triu(1)
            return scores.softmax(-1) @ v

        word = super().forward(words, cos, sin, attend)
        return (word, *after)


def of_onnxruntime(w: Arrays, x: Arrays) -> Run:
    """A graph for the prompt and one for a step; words and caches stay in the runtime."""
    import onnxruntime as ort

    model = Growing(w, int(x["heads"]), int(x["most"])).eval()
    prompt, steps = torch.from_numpy(x["prompt"]), int(x["steps"])
    batch = len(prompt)
    old = [f"old.{n}" for n in range(2 * model.layers)]
    new = [f"new.{n}" for n in range(2 * model.layers)]
    cache = torch.zeros(batch, model.groups, 5, model.each)
    options = ort.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.inter_op_num_threads = 1
    options.log_severity_level = 3

    def session(args: tuple[Tensor, ...], names: list[str]) -> Any:
        grows = {n: {2: "past"} for n in names} | {n: {2: "now"} for n in new if names}
        with io.BytesIO() as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                model,
                args,
                file,
                dynamo=False,
                input_names=["words", *names],
                output_names=["word", *new],
                dynamic_axes=grows,
                opset_version=17,
            )
            return ort.InferenceSession(file.getvalue(), options, ["CPUExecutionProvider"])

    first = session((prompt,), [])
    step = session((prompt[:, :1], *[cache] * len(old)), old)

    def one(session: Any, given: dict[str, Any]) -> list[Any]:
        binding = session.io_binding()
        for name, value in given.items():
            binding.bind_ortvalue_input(name, value)
        for name in ("word", *new):
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        return list(binding.get_outputs())

    def run() -> list[np.ndarray]:
        said = np.zeros((batch, steps), np.int64)
        word, *caches = one(first, {"words": ort.OrtValue.ortvalue_from_numpy(x["prompt"])})
        for i in range(steps):
            said[:, i] = word.numpy()[:, 0]
            word, *caches = one(step, {"words": word, **dict(zip(old, caches))})
        return [said]

    return run


def ready(runtime: str, w: Arrays, x: Arrays) -> Run:
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.set_grad_enabled(False)
    match runtime:
        case "onnxruntime":
            return of_onnxruntime(w, x)
        case "torch" | "torch.compile":
            return Decoding(w, x, masked=runtime == "torch.compile").eval()
    raise ValueError("it has no such form")
