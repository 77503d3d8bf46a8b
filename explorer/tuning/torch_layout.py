"""Operators that move, cut and address values as PyTorch calls; shapes are small int64 tensors, as
in ONNX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from explorer.ops.record import Site

torch: Any = import_module("torch")

Run = Callable[..., Any]


def _numbers(site: Site, position: int, name: str = "") -> tuple[int, ...] | None:
    """A list of integers, if it is known before the run."""
    found = site.integers(name) if name else None
    if found is not None or not site.has(position):
        return found
    value = site.values[position]
    return None if value is None else tuple(int(n) for n in np.ravel(value))


def _reshape(site: Site) -> Run:
    known, zero = _numbers(site, 1, "shape"), site.integer("allowzero")

    def run(x: Any, shape: Any = None) -> Any:
        wanted = known if known is not None else shape.tolist()
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
    known = _numbers(site, 1, "axes")

    def run(x: Any, axes: Any = None) -> Any:
        wanted = known if known is not None else axes.tolist()
        rank = x.ndim + len(wanted)
        for axis in sorted(a % rank for a in wanted):
            x = x.unsqueeze(axis)
        return x

    return run


def _squeeze(site: Site) -> Run:
    known = _numbers(site, 1, "axes")
    if known is None and site.has(1):
        site.unsupported("needs its axes before the run")
    return lambda x, *_: x.squeeze() if known is None else x.squeeze(tuple(known))


def _expand(site: Site) -> Run:
    def run(x: Any, shape: Any) -> Any:
        return x.expand(torch.broadcast_shapes(x.shape, tuple(shape.tolist())))

    return run


def _concat(site: Site) -> Run:
    axis = site.integer("axis")
    return lambda *parts: torch.cat(parts, axis)


def _split(site: Site) -> Run:
    axis = site.integer("axis")
    sizes = _numbers(site, 1, "split")
    if sizes is None and site.has(1):
        site.unsupported("needs its sizes before the run")

    def run(x: Any, *_: Any) -> Any:
        return x.split(sizes or -(-x.shape[axis] // site.results), axis)

    return run


def _slice(site: Site) -> Run:
    """Starts, ends, axes and steps are attributes in old files, arguments in new ones."""
    given = [
        _numbers(site, i + 1, name) for i, name in enumerate(("starts", "ends", "axes", "steps"))
    ]

    def run(x: Any, *tensors: Any) -> Any:
        late: list[Any] = [None if t is None else t.tolist() for t in (*tensors, *[None] * 4)]
        starts, ends, axes, steps = (v if k is None else k for k, v in zip(given, late))
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
}
