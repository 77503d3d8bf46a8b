"""ONNX layout, slicing and indexing operators as PyTorch calls.

Shapes are small int64 tensors, as in ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from explorer.ops.record import Site
from explorer.tuning.peers.model_forms import bilinear_sizes, border, constant_integers

torch: Any = import_module("torch")
F: Any = torch.nn.functional

Run = Callable[..., Any]


def _reshape(site: Site) -> Run:
    static_shape, zero = constant_integers(site, 1, "shape"), site.integer("allowzero")

    def run(x: Any, shape: Any = None) -> Any:
        wanted = static_shape if static_shape is not None else shape.tolist()
        if not zero and 0 in wanted:
            wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
        return x.reshape(tuple(wanted))

    return run


def _transpose(site: Site) -> Run:
    perm = site.integers("perm")
    return lambda x: x.permute(perm if perm is not None else tuple(reversed(range(x.ndim))))


def _flatten(site: Site) -> Run:
    axis = site.integer("axis", 1)
    return lambda x: x.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), -1)


def _unsqueeze(site: Site) -> Run:
    static_axes = constant_integers(site, 1, "axes")

    def run(x: Any, axes: Any = None) -> Any:
        wanted = static_axes if static_axes is not None else axes.tolist()
        rank = x.ndim + len(wanted)
        for axis in sorted(a % rank for a in wanted):
            x = x.unsqueeze(axis)
        return x

    return run


def _squeeze(site: Site) -> Run:
    static_axes = constant_integers(site, 1, "axes")
    if static_axes is None and site.has(1):
        site.unsupported("needs its axes before the run")
    return lambda x, *_: x.squeeze() if static_axes is None else x.squeeze(tuple(static_axes))


def _expand(site: Site) -> Run:
    static_shape = constant_integers(site, 1, "shape")

    def run(x: Any, shape: Any = None) -> Any:
        wanted = static_shape if static_shape is not None else tuple(shape.tolist())
        return x.expand(torch.broadcast_shapes(x.shape, wanted))

    return run


def _concat(site: Site) -> Run:
    axis = site.integer("axis")
    return lambda *parts: torch.cat(parts, axis)


def _split(site: Site) -> Run:
    axis = site.integer("axis")
    sizes = constant_integers(site, 1, "split")
    if sizes is None and site.has(1):
        site.unsupported("needs its sizes before the run")

    def run(x: Any, *_: Any) -> Any:
        return x.split(sizes or -(-x.shape[axis] // site.results), axis)

    return run


def _slice(site: Site) -> Run:
    """Slice; starts, ends, axes and steps are attributes in old files, arguments in new ones."""
    static_bounds = [
        constant_integers(site, i + 1, name)
        for i, name in enumerate(("starts", "ends", "axes", "steps"))
    ]

    def run(x: Any, *tensors: Any) -> Any:
        late: list[Any] = [None if t is None else t.tolist() for t in (*tensors, *[None] * 4)]
        starts, ends, axes, steps = (v if k is None else k for k, v in zip(static_bounds, late))
        for n, start in enumerate(starts):
            step = 1 if steps is None else steps[n]
            x = _cut(x, n if axes is None else axes[n], slice(start, ends[n], step))
        return x

    return run


def _cut(x: Any, axis: int, part: slice) -> Any:
    start, stop, step = part.indices(x.shape[axis])
    if step < 0:
        return x.index_select(axis, torch.arange(start, stop, step))
    return x[(slice(None),) * (axis % x.ndim) + (slice(start, stop, step),)]


def _gather(site: Site) -> Run:
    axis = site.integer("axis")
    return lambda x, index: x[(slice(None),) * (axis % x.ndim) + (index,)]


def _gather_elements(site: Site) -> Run:
    axis = site.integer("axis")
    return lambda x, index: x.gather(axis, torch.where(index < 0, index + x.shape[axis], index))


def _gather_nd(site: Site) -> Run:
    if site.integer("batch_dims"):
        site.unsupported("has batch dims")
    return lambda x, index: x[tuple(index.unbind(-1))]


def _shape(site: Site) -> Run:
    start, end = site.integer("start"), site.attrs.get("end")
    return lambda x: torch.tensor(x.shape[start:end], dtype=torch.int64)


def _range(site: Site) -> Run:
    def run(start: Any, limit: Any, step: Any) -> Any:
        return torch.arange(start.item(), limit.item(), step.item(), dtype=start.dtype)

    return run


def _constant_of_shape(site: Site) -> Run:
    dtype = getattr(torch, site.text("dtype", "float32"))
    value = site.number("value", 0.0)
    return lambda shape: torch.full(tuple(shape.tolist()), value, dtype=dtype)


def _pad(site: Site) -> Run:
    axis_widths, fill = border(site)
    widths = tuple(n for pair in reversed(axis_widths) for n in pair)
    return lambda x, *_: F.pad(x, widths, value=fill)


def _depth_to_space(site: Site) -> Run:
    by = site.integer("blocksize")
    if site.text("mode", "DCR") == "CRD":
        return lambda x: F.pixel_shuffle(x, by)

    def run(x: Any) -> Any:
        n, c, h, w = x.shape
        x = x.reshape(n, by, by, c // by**2, h, w).permute(0, 3, 4, 1, 5, 2)
        return x.reshape(n, c // by**2, h * by, w * by)

    return run


def _resize(site: Site) -> Run:
    """Resize bilinearly with half-pixel centres to static sizes."""
    wanted = bilinear_sizes(site)
    return lambda x, *_: F.interpolate(x, wanted, mode="bilinear", align_corners=False)


LAYOUT: Mapping[str, Callable[[Site], Run]] = {
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Flatten": _flatten,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Expand": _expand,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Shape": _shape,
    "Range": _range,
    "ConstantOfShape": _constant_of_shape,
    "Pad": _pad,
    "DepthToSpace": _depth_to_space,
    "Resize": _resize,
}
