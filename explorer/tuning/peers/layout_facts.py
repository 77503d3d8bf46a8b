"""What an ONNX operator that moves values says before the run, for runtimes that are raced."""

from __future__ import annotations

import numpy as np

from explorer.ops.site import Site


def numbers(site: Site, position: int, name: str = "") -> tuple[int, ...] | None:
    """Integers that are an attribute or a constant argument; None where they are neither."""
    found = site.integers(name) if name else None
    if found is not None or not site.has(position):
        return found
    value = site.values[position]
    return None if value is None else tuple(int(n) for n in np.ravel(value))


def known(site: Site, position: int, name: str) -> tuple[int, ...] | None:
    """The same, for shapes that must be known: Unsupported where only a run gives them."""
    found = numbers(site, position, name)
    if found is None and site.has(position):
        site.unsupported(f"needs its {name} before the run")
    return found


def border(site: Site) -> tuple[list[tuple[int, int]], float]:
    """What a Pad adds before and behind each axis, and the value; Unsupported where it fills with
    anything else, or of widths that only a run knows.
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
    """The height and width that a Resize is to, bilinear between the centres of pixels; Unsupported
    where it is another one.
    """
    half = site.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    sizes = numbers(site, 3, "sizes")
    if site.text("mode", "nearest") != "linear" or not half or sizes is None:
        site.unsupported("is no bilinear one to known sizes")
    if len(sizes) not in (2, 4) or site.integers("axes", (2, 3)) != (2, 3):
        site.unsupported("is not of height and width alone")
    return sizes[-2], sizes[-1]
