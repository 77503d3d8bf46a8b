"""Range and OneHot with a run-time number of elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from explorer.ir.shapes.dims import Dim
from explorer.ops.record import HostNumber, RunTime
from explorer.ops.run_time.site import Host, symbolic
from explorer.ops.site import Site

Attrs = Mapping[str, Any]


def _range_values(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("Range", attrs, args)
    start, limit, delta = (host.number(i) for i in range(3))
    if delta == 0 or not all(np.isfinite(float(v)) for v in (start, limit, delta)):
        host.fail(f"there are no steps of {delta} from {start} to {limit}")
    if isinstance(delta, np.integer):
        distance = int(limit) - int(start)
        return {"extent": max(0, -(-distance // int(delta)))}
    return {"extent": max(0, int(np.ceil(float(limit - start) / float(delta))))}


def _range(site: Site, symbols: Mapping[str, Dim]) -> Site:
    """Return `y[i] = start + i * delta`, of two scalars that the kernel reads."""
    return symbolic(site, site.arg(0), None, site.arg(2), op="Ramp", extent=symbols["extent"])


def _depth(attrs: Attrs, args: Sequence[Any]) -> Mapping[str, int]:
    host = Host("OneHot", attrs, args)
    depth = host.single(1)
    if depth < 0:
        host.fail(f"a depth of {depth}")
    return {"depth": depth}


def _one_hot(site: Site, symbols: Mapping[str, Dim]) -> Site:
    return symbolic(site, site.arg(0), None, site.arg(2), depth=(symbols["depth"],))


RANGE = RunTime(frozenset({0, 1, 2}), lambda site: (HostNumber("extent"),), _range_values, _range)
ONE_HOT = RunTime(frozenset({1}), lambda site: (HostNumber("depth"),), _depth, _one_hot)
