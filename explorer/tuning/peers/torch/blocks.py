"""PyTorch calls without an ONNX operator, as `fusion` creates them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from explorer.ops.site import Site

torch: Any = import_module("torch")
F: Any = torch.nn.functional

Run = Callable[..., Any]


def _linear(site: Site) -> Run:
    return lambda x, w, b=None: F.linear(x, w.t(), b)


def _rms_norm(site: Site) -> Run:
    epsilon = site.number("epsilon", 1e-5)
    return lambda x, w: F.rms_norm(x, w.shape, w, epsilon)


def _attention(site: Site) -> Run:
    """Call PyTorch's attention, whose fast kernel takes four dims: batch, heads, rows, width."""
    scale, causal = site.number("scale", 1.0), bool(site.integer("causal"))
    run: Run = F.scaled_dot_product_attention

    def attend(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        batched = (t.unsqueeze(0) if q.ndim == 3 else t for t in (q, k, v))
        attended = run(*batched, attn_mask=mask, is_causal=causal, scale=scale)
        return attended.squeeze(0) if q.ndim == 3 else attended

    return attend


BLOCKS: Mapping[str, Callable[[Site], Run]] = {
    "torch.linear": _linear,
    "torch.silu": lambda site: F.silu,
    "torch.rsqrt": lambda site: torch.rsqrt,
    "torch.rms_norm": _rms_norm,
    "torch.attention": _attention,
}
