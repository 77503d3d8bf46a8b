"""Attributes and constant arguments of ONNX layout operators, for the runtimes of races."""

from __future__ import annotations

import numpy as np

from explorer.ops.site import Site


def numbers(site: Site, position: int, name: str = "") -> tuple[int, ...] | None:
    """Return integers from an attribute or a constant argument, None if neither is given."""
    integers = site.integers(name) if name else None
    if integers is not None or not site.has(position):
        return integers
    value = site.values[position]
    return None if value is None else tuple(int(n) for n in np.ravel(value))


def static_integers(site: Site, position: int, name: str) -> tuple[int, ...] | None:
    """Return such integers, for values that must be constant.

    Raises UnsupportedOperator if only a run determines them.
    """
    integers = numbers(site, position, name)
    if integers is None and site.has(position):
        site.unsupported(f"needs its {name} before the run")
    return integers


def border(site: Site) -> tuple[list[tuple[int, int]], float]:
    """Return the widths before and behind each axis of a Pad, and the fill value.

    Raises UnsupportedOperator for other modes and for widths that only a run determines.
    """
    if site.text("mode", "constant") != "constant" or site.has(3) or site.attrs.get("axes"):
        site.unsupported("does not fill all around with one value")
    pads = numbers(site, 1, "pads")
    if pads is None:
        site.unsupported("needs its widths before the run")
    value = site.values[2] if site.has(2) else None
    fill = site.number("value", 0.0) if value is None else float(value.item())
    return list(zip(pads[: len(pads) // 2], pads[len(pads) // 2 :])), fill


def bilinear_sizes(site: Site) -> tuple[int, int]:
    """Return the target height and width of a bilinear Resize with half-pixel centres.

    Raises UnsupportedOperator for other forms.
    """
    half = site.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    sizes = numbers(site, 3, "sizes")
    if site.text("mode", "nearest") != "linear" or not half or sizes is None:
        site.unsupported("is no bilinear one to known sizes")
    if len(sizes) not in (2, 4) or site.integers("axes", (2, 3)) != (2, 3):
        site.unsupported("is not of height and width alone")
    return sizes[-2], sizes[-1]
