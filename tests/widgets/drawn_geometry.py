"""Where the words of a drawing are: which leave it, which overlap, and which a line crosses."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from widgets.draw.svg import Svg, text_width

SIZES = ((1012, 600), (720, 480), (380, 560))  # a wide page, a drawer beside it, a telephone
LOW = ((280, 240), (460, 240), (720, 240), (1012, 300))  # with every drawer open
ALL_SIZES = (*SIZES, *LOW, (1900, 1000))
ABOVE, BELOW = 0.74, 0.2  # of the size of type: what letters take over and under their line
BOLD = 1.07  # wider than the same letters in regular type
SLACK = 0.75  # pixels that a box may lie in another
_NUMBERS = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?")
_COMMANDS = re.compile(r"([MLHVZmlhvz])([^MLHVZmlhvzAaCcQqSsTt]*)")


@dataclass(frozen=True, slots=True)
class Box:
    """A part of the drawing in pixels; `words` are those of a text."""

    left: float
    top: float
    right: float
    bottom: float
    words: str = ""

    def overlaps(self, other: Box) -> bool:
        """Return True if both cover more than a hair of the same pixels."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return wide > SLACK and high > SLACK

    def holds(self, other: Box) -> bool:
        """Return True if the other lies in this one."""
        inside = self.left <= other.left + SLACK and self.right >= other.right - SLACK
        return inside and self.top <= other.top + SLACK and self.bottom >= other.bottom - SLACK


Line = tuple[float, float, float, float]


def problems(figure: Svg) -> list[str]:
    """What is wrong with the words of a drawing: an empty list where all can be read."""
    return [*outside(figure), *overlapping(figure), *crossed(figure), *small(figure)]


def outside(figure: Svg) -> list[str]:
    """Return the texts, boxes and lines that leave the drawing."""
    room, found = Box(0, 0, figure.width, figure.height), []
    for mark in _drawn(figure):
        box = mark if isinstance(mark, Box) else _around(mark)
        if not room.holds(box):
            where = f"{box.left:.0f}, {box.top:.0f} to {box.right:.0f}, {box.bottom:.0f}"
            found.append(f"{box.words or 'a mark'!r} at {where} leaves the drawing")
    return found


def overlapping(figure: Svg) -> list[str]:
    """Return the pairs of texts that cover the same pixels."""
    pairs = combinations(_texts(figure), 2)
    return [f"{a.words!r} on {b.words!r}" for a, b in pairs if a.overlaps(b)]


def crossed(figure: Svg) -> list[str]:
    """Return the texts that a line goes through, unless a filled box lies between the two."""
    found, lines, drawn = [], [], list(_drawn(figure))
    for at, mark in enumerate(drawn):
        if not isinstance(mark, Box):
            lines.append((at, mark))
    texts = [(at, b) for at, b in enumerate(drawn) if isinstance(b, Box) and b.words]
    grounds = [(at, b) for at, b in enumerate(drawn) if isinstance(b, Box) and not b.words]
    for at, text in texts:
        for number, line in lines:
            hidden = any(number < n < at and ground.holds(text) for n, ground in grounds)
            if not hidden and _through(line, text):
                found.append(f"a line goes through {text.words!r}")
                break
    return found


def small(figure: Svg) -> list[str]:
    """Return the texts that are set in less than 13 pixels."""
    if figure.px != 13:
        return [f"the drawing is set in {figure.px} px"]
    sizes = re.findall(r"font-size:\s*([\d.]+)px", figure.body)
    return [f"type of {px} px" for px in sizes if float(px) < 13]


def _texts(figure: Svg) -> list[Box]:
    return [b for b in _drawn(figure) if isinstance(b, Box) and b.words]


def _drawn(figure: Svg) -> Iterator[Box | Line]:
    """Texts, filled boxes and lines in the order in which they are painted."""
    yield from _of(ElementTree.fromstring(figure.text()), 0.0, 0.0, figure.px)


def _of(
    node: ElementTree.Element, x: float, y: float, px: float, anchor: str = ""
) -> Iterator[Box | Line]:
    tag = node.tag.rsplit("}", 1)[-1]
    if node.get("visibility") == "hidden" or tag in ("defs", "style", "title"):
        return
    moved = re.match(r"translate\(([^)]*)\)", node.get("transform", ""))
    if moved:
        by = [float(n) for n in _NUMBERS.findall(moved[1])]
        x, y = x + by[0], y + (by[1] if len(by) > 1 else 0)
    anchor = node.get("text-anchor", anchor)
    if tag == "text":
        yield from _text(node, x, y, px, anchor)
    elif tag == "rect" and node.get("fill") not in (None, "none", "transparent"):
        left, top = x + float(node.get("x", 0)), y + float(node.get("y", 0))
        yield Box(left, top, left + float(node.get("width", 0)), top + float(node.get("height", 0)))
    elif tag == "path":
        filled = node.get("fill") not in (None, "none", "transparent")
        yield from _path(node.get("d", ""), x, y, filled=filled, stroke=node.get("stroke"))
    for child in node:
        yield from _of(child, x, y, px, anchor)


def _text(node: ElementTree.Element, x: float, y: float, px: float, anchor: str) -> Iterator[Box]:
    words = "".join(_said(node))
    if not words.strip():
        return
    style = (node.get("class") or "").split()
    sized = re.search(r"font-size:\s*([\d.]+)px", node.get("style") or "")
    px = float(sized[1]) if sized else 15 if "name" in style else 16 if "big" in style else px
    bold = {"w", "a", "bad", "name", "big"} & {*style}
    wide = text_width(words, px, mono="mono" in style) * (BOLD if bold else 1)
    x, y = x + float(node.get("x", 0)), y + float(node.get("y", 0))
    left = {"middle": x - wide / 2, "end": x - wide}.get(anchor, x)
    yield Box(left, y - ABOVE * px, left + wide, y + BELOW * px, words)


def _said(node: ElementTree.Element) -> Iterator[str]:
    """The words of a text without its tooltip."""
    yield node.text or ""
    for child in node:
        if not child.tag.endswith("title"):
            yield from _said(child)
        yield child.tail or ""


def _path(d: str, x: float, y: float, *, filled: bool, stroke: str | None) -> Iterator[Box | Line]:
    """The straight lines of a path; the box of one that is filled."""
    lines = list(_lines(d, x, y))
    if filled and lines:
        xs, ys = [n for a in lines for n in (a[0], a[2])], [n for a in lines for n in (a[1], a[3])]
        yield Box(min(xs), min(ys), max(xs), max(ys))
    if stroke not in (None, "none"):
        yield from lines


def _lines(d: str, x0: float, y0: float) -> Iterator[Line]:
    x = y = first_x = first_y = 0.0
    for letter, rest in _COMMANDS.findall(d):
        n = [float(v) for v in _NUMBERS.findall(rest)]
        old = letter.islower()
        if letter in "Zz":
            yield x + x0, y + y0, first_x + x0, first_y + y0
            x, y = first_x, first_y
            continue
        steps: list[tuple[float | None, float | None]] = [*zip(n[::2], n[1::2])]
        if letter in "HhVv":
            steps = [(v, None) if letter in "Hh" else (None, v) for v in n]
        for number, (dx, dy) in enumerate(steps):
            to_x = x if dx is None else x + dx if old else dx
            to_y = y if dy is None else y + dy if old else dy
            if letter in "Mm" and number == 0:
                first_x, first_y = to_x, to_y
            else:
                yield x + x0, y + y0, to_x + x0, to_y + y0
            x, y = to_x, to_y


def _around(line: Line) -> Box:
    ax, ay, bx, by = line
    return Box(min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))


def _through(line: Line, text: Box) -> bool:
    """Return True if a line meets the middle of a text's box."""
    ax, ay, bx, by = line
    left, right = text.left + 1, text.right - 1
    top, bottom = text.top + 1.5, text.bottom - 2.5
    low, high = 0.0, 1.0
    for start, way, least, most in ((ax, bx - ax, left, right), (ay, by - ay, top, bottom)):
        if abs(way) < 1e-9:
            if not least <= start <= most:
                return False
            continue
        one, two = sorted(((least - start) / way, (most - start) / way))
        low, high = max(low, one), min(high, two)
    return low <= high
