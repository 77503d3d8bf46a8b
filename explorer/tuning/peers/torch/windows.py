"""Convolution and pooling as PyTorch calls; padding that PyTorch cannot express is a copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from explorer.ops.site import Site

torch: Any = import_module("torch")
F: Any = torch.nn.functional

Run = Callable[..., Any]


def _pads(site: Site, dims: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return symmetric padding, and the padding to do before, in the order of `F.pad`."""
    auto = site.text("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID"):
        site.unsupported(f"pads by the rule {auto}")
    pads = site.integers("pads", (0,) * (2 * dims)) or (0,) * (2 * dims)
    low, high = pads[:dims], pads[dims:]
    if low == high:
        return low, ()
    return (0,) * dims, tuple(n for pair in reversed(list(zip(low, high))) for n in pair)


def _window(site: Site) -> tuple[int, ...]:
    shape = site.integers("kernel_shape")
    return shape if shape is not None else site.unsupported("has no kernel_shape")


def _conv(site: Site) -> Run:
    dims = len(_window(site))
    symmetric, before = _pads(site, dims)
    ones = (1,) * dims
    stride, dilation = site.integers("strides", ones), site.integers("dilations", ones)
    groups = site.integer("group", 1)
    run: Run = (F.conv1d, F.conv2d, F.conv3d)[dims - 1]

    def conv(x: Any, w: Any, b: Any = None) -> Any:
        x = F.pad(x, before) if before else x
        return run(x, w, b, stride, symmetric, dilation, groups)

    return conv


def _max_pool(site: Site) -> Run:
    if site.results > 1:
        site.unsupported("gives the places of its maxima too")
    window = _window(site)
    symmetric, before = _pads(site, len(window))
    ones = (1,) * len(window)
    stride, dilation = site.integers("strides", ones), site.integers("dilations", ones)
    ceil = bool(site.integer("ceil_mode"))
    run: Run = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(window) - 1]

    def pool(x: Any) -> Any:
        x = F.pad(x, before, value=-torch.inf) if before else x
        return run(x, window, stride, symmetric, dilation, ceil)

    return pool


def _average_pool(site: Site) -> Run:
    window = _window(site)
    symmetric, before = _pads(site, len(window))
    ones = (1,) * len(window)
    if site.integer("ceil_mode") or site.integers("dilations", ones) != ones:
        site.unsupported("rounds up or is dilated")
    stride = site.integers("strides", ones)
    counted = bool(site.integer("count_include_pad"))
    run: Run = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(window) - 1]

    def pool(x: Any) -> Any:
        if not before:
            return run(x, window, stride, symmetric, False, counted)
        total = run(F.pad(x, before), window, stride)
        if counted:
            return total
        return total / run(F.pad(torch.ones_like(x[:1, :1]), before), window, stride)

    return pool


def _over_pixels(run: Run) -> Callable[[Site], Run]:
    return lambda site: lambda x: run(x, tuple(range(2, x.ndim)), True)


def _local_response(site: Site) -> Run:
    size = site.integer("size")
    if size % 2 == 0:
        site.unsupported("has a window of even size, which PyTorch places otherwise")
    alpha, beta = site.number("alpha", 1e-4), site.number("beta", 0.75)
    bias = site.number("bias", 1.0)
    return lambda x: F.local_response_norm(x, size, alpha, beta, bias)


WINDOWS: Mapping[str, Callable[[Site], Run]] = {
    "Conv": _conv,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _over_pixels(torch.mean),
    "GlobalMaxPool": _over_pixels(torch.amax),
    "LRN": _local_response,
}
