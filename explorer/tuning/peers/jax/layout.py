"""ONNX layout, slicing and indexing operators as JAX calls; shapes are static."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from explorer.ops.site import Site
from explorer.tuning.peers.layout_attributes import bilinear_sizes, border, static_integers

jax: Any = import_module("jax")
jnp: Any = import_module("jax.numpy")

Run = Callable[..., Any]


def _reshape(site: Site) -> Run:
    dims = static_integers(site, 1, "shape") or ()
    zero = site.integer("allowzero")
    return lambda x, *_: x.reshape(
        [x.shape[n] if d == 0 and not zero else d for n, d in enumerate(dims)]
    )


def _transpose(site: Site) -> Run:
    perm = site.integers("perm")
    return lambda x: jnp.transpose(x, perm)


def _flatten(site: Site) -> Run:
    axis = site.integer("axis", 1)
    return lambda x: x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), -1)


def _squeeze(site: Site) -> Run:
    axes = static_integers(site, 1, "axes")
    return lambda x, *_: jnp.squeeze(x, axes)


def _unsqueeze(site: Site) -> Run:
    axes = static_integers(site, 1, "axes")
    return lambda x, *_: jnp.expand_dims(x, axes)


def _expand(site: Site) -> Run:
    dims = static_integers(site, 1, "shape") or ()
    return lambda x, *_: jnp.broadcast_to(x, np.broadcast_shapes(x.shape, dims))


def _concat(site: Site) -> Run:
    axis = site.integer("axis")
    return lambda *parts: jnp.concatenate(parts, axis)


def _split(site: Site) -> Run:
    axis, sizes = site.integer("axis"), static_integers(site, 1, "split")

    def run(x: Any, *_: Any) -> Any:
        part = -(-x.shape[axis] // site.results)
        cuts = np.cumsum(sizes or [part] * site.results)[:-1]
        return tuple(jnp.split(x, cuts, axis))

    return run


def _slice(site: Site) -> Run:
    names = ("starts", "ends", "axes", "steps")
    starts, ends, axes, steps = (static_integers(site, n + 1, name) for n, name in enumerate(names))

    def run(x: Any, *_: Any) -> Any:
        where = [slice(None)] * x.ndim
        for n, (start, end) in enumerate(zip(starts or (), ends or ())):
            axis, step = n if axes is None else axes[n], 1 if steps is None else steps[n]
            before = step < 0 and end < -x.shape[axis]
            where[axis] = slice(start, None if before else end, step)
        return x[tuple(where)]

    return run


def _gather(site: Site) -> Run:
    axis = site.integer("axis")
    return lambda x, index: jnp.take(x, index, axis)


def _pad(site: Site) -> Run:
    widths, fill = border(site)
    return lambda x, *_: jnp.pad(x, widths, constant_values=fill)


def _depth_to_space(site: Site) -> Run:
    by, channels_first = site.integer("blocksize"), site.text("mode", "DCR") == "CRD"

    def run(x: Any) -> Any:
        n, c, h, w = x.shape
        if channels_first:
            x = x.reshape(n, c // by**2, by, by, h, w).transpose(0, 1, 4, 2, 5, 3)
        else:
            x = x.reshape(n, by, by, c // by**2, h, w).transpose(0, 3, 4, 1, 5, 2)
        return x.reshape(n, c // by**2, h * by, w * by)

    return run


def _resize(site: Site) -> Run:
    wanted = bilinear_sizes(site)
    return lambda x, *_: jax.image.resize(x, (*x.shape[:2], *wanted), "linear", antialias=False)


LAYOUT: Mapping[str, Callable[[Site], Run]] = {
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Expand": _expand,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "Pad": _pad,
    "DepthToSpace": _depth_to_space,
    "Resize": _resize,
}
