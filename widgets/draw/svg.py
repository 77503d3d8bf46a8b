"""Drawings as SVG text in CSS variables, with the marks of the small pictures and label widths.

Marks that name a symbol are highlighted together by CSS rules, so a drawing needs no script.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from explorer.ir.dims import Dim, symbols_of
from widgets.draw import theme

# Advance widths of Helvetica (and Liberation Sans) in thousandths of the size, for the codes 32 to
# 126.
_ADVANCES = (
    278,
    278,
    355,
    556,
    556,
    889,
    667,
    191,
    333,
    333,
    389,
    584,
    278,
    333,
    278,
    278,
    *(556,) * 10,
    278,
    278,
    584,
    584,
    584,
    556,
    1015,
    667,
    667,
    722,
    722,
    667,
    611,
    778,
    722,
    278,
    500,
    667,
    556,
    833,
    722,
    778,
    667,
    778,
    722,
    667,
    611,
    722,
    667,
    944,
    667,
    667,
    611,
    278,
    278,
    278,
    469,
    556,
    333,
    556,
    556,
    500,
    556,
    556,
    278,
    556,
    556,
    222,
    222,
    500,
    222,
    833,
    556,
    556,
    556,
    556,
    333,
    500,
    278,
    556,
    500,
    722,
    500,
    500,
    500,
    334,
    260,
    334,
    584,
)
_MONO_ADVANCE = 602
_NARROWEST = min(_ADVANCES)
LARGER = 1.2  # the most that a picture grows in a wider pane
MOST_RULES = 40
_MARKED = re.compile(r'data-sym="([^"]*)"')
_numbers = itertools.count()


def text_width(text: str, px: float = 11, *, mono: bool = False) -> float:
    """Return the width of a label in pixels, in the widest of the named fonts."""
    if mono:
        return len(text) * _MONO_ADVANCE * px / 1000
    return sum(map(_advance, text)) * px / 1000


def _advance(letter: str) -> int:
    """Return a letter's width in thousandths of the size; arrows, dashes, ellipses are square."""
    code = ord(letter) - 32
    if 0 <= code < 95:
        return _ADVANCES[code]
    return 600 if code < 0x2000 else 1000


def fit(text: str, room: float, px: float = 11, *, mono: bool = False) -> str:
    """Shorten a text that is wider than `room`.

    A path keeps the last parts that fit, behind an ellipsis. Other text gets an ellipsis in the
    middle.
    """
    if text_width(text, px, mono=mono) <= room:
        return text
    for part in PARTS.finditer(text) if len(text) <= LONGEST and PATH.fullmatch(text) else ():
        if text_width(end := f"…{text[part.start() :]}", px, mono=mono) <= room:
            return end
    letters = room * 1000 / px / _NARROWEST  # more never fit
    low, high = 1, len(text) - 1 if letters >= len(text) else max(1, int(letters))
    while low < high:  # more letters are never narrower
        keep = (low + high + 1) // 2
        if text_width(_shorten(text, keep), px, mono=mono) <= room:
            low = keep
        else:
            high = keep - 1
    return _shorten(text, low) if low > 1 else "…"


PATH = re.compile(r"\S*[/:]\S+( \S+){0,2}")  # `a/b/MatMul`, `flow.py:57 matmul (2)`
LONGEST = 200  # characters of a name whose parts are tried one by one; chosen
PARTS = re.compile(r"(?<=.)[/:]|(?<= )\S")


def _shorten(text: str, keep: int) -> str:
    """Return `keep` letters of a text, from its beginning and its end."""
    return text[: (keep + 1) // 2] + "…" + text[len(text) - keep // 2 :]


def path_end(name: str) -> str:
    """Return the last two parts of a name that is a path, without the exporter's suffix."""
    return "/".join(name.removesuffix("_output_0").strip("/").split("/")[-2:])


def wrap_text(text: str, room: float, px: float = 11, *, mono: bool = False) -> list[str]:
    """Return the text in lines that fit into `room`, broken between words."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, px, mono=mono) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def label(
    x: float,
    y: float,
    text: str,
    style: str = "",
    *,
    anchor: str = "",
    ops: Iterable[str] = (),
    symbols: Collection[str] = (),
    title: str = "",
) -> str:
    """Return text at a point.

    Styles: i ink, w bold, q quiet, a selected, bad wrong, inv on dark, mono. Each of the `symbols`
    that occurs in the text is a mark of its own. `title` is the text shown on hover; for a cut
    text, the title determines which symbols it names.
    """
    cut = bool(title) and title != text
    cut_symbols = symbol_attribute(symbols_in_text(title, symbols)) if cut else ""
    at = f' text-anchor="{anchor}"' if anchor else ""
    title_element = f"<title>{escape(title)}</title>" if cut else ""
    words = symbol_spans(text, symbols)
    head = f'<text x="{x:g}" y="{y:g}" class="{style}"{at}{_ops(ops)}{cut_symbols}>'
    return f"{head}{title_element}{words}</text>"


def symbol_label(x: float, y: float, name: str, aria_label: str, *, room: float = 1e9) -> str:
    """Return a symbol that takes the keyboard focus; screen readers read out `aria_label`."""
    symbol = symbol_attribute((name,))
    return (
        f'<text x="{x:g}" y="{y:g}" class="mono i w" tabindex="0"{symbol} '
        f'aria-label="{escape(aria_label, quote=True)}"><title>{escape(aria_label)}</title>'
        f"{escape(fit(name, room, mono=True))}</text>"
    )


def rect(
    x: float,
    y: float,
    w: float,
    h: float,
    fill: str,
    extra: str = "",
    *,
    title: str = "",
    ops: Iterable[str] = (),
    symbols: Iterable[str] = (),
) -> str:
    """Return a box.

    `title` is the text shown on hover, `ops` the source operators that the box stands for,
    `symbols` the symbols that it names.
    """
    title_element = f"<title>{escape(title)}</title>" if title else ""
    return (
        f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(w, 0):.2f}" height="{max(h, 0):.2f}" '
        f'fill="{fill}" {extra}{_ops(ops)}{symbol_attribute(symbols)}>'
        f"{title_element}</rect>"
    )


def step_group(
    body: str,
    number: int,
    description: str = "",
    name: str = "",
    span_us: tuple[float, float] | None = None,
) -> str:
    """Return marks that belong to one step of a process.

    The page goes through the steps and reads out each one's `description` and `name`. `span_us` is
    its time in the measured wall, which then shows that time.
    """
    title = f"<title>{escape(description)}</title>" if description else ""
    called = f' data-name="{escape(name, quote=True)}"' if name else ""
    when = f' data-span="{span_us[0]:.3f} {span_us[1]:.3f}"' if span_us else ""
    return f'<g data-step="{number}"{called}{when}>{title}{body}</g>'


def operator_group(marks: Iterable[str], ops: Iterable[str]) -> str:
    """Return marks of the same operators as a group: a click on one counts for all."""
    return f"<g{_ops(ops)}>{''.join(marks)}</g>"


def cross(x: float, y: float, size: float = 5) -> str:
    """Return a cross around a point, the mark of something wrong."""
    return (
        f'<path d="M{x - size:g} {y - size:g}L{x + size:g} {y + size:g}M{x + size:g} {y - size:g}'
        f'L{x - size:g} {y + size:g}" fill="none" stroke="var(--bad)" stroke-width="1.8"/>'
    )


def path(d: str, stroke: str = "var(--ink2)", extra: str = "", *, ops: Iterable[str] = ()) -> str:
    """Return a line."""
    return f'<path d="{d}" fill="none" stroke="{stroke}" {extra}{_ops(ops)}/>'


def arrow(x: float, y: float, to_x: float, to_y: float, stroke: str = "var(--ink2)") -> str:
    """Return a straight arrow from one point to another."""
    length = max(((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5, 1e-9)
    ux, uy = (to_x - x) / length, (to_y - y) / length
    head = (
        f"M{to_x:.1f} {to_y:.1f}l{-ux * 6 - uy * 3:.1f} {-uy * 6 + ux * 3:.1f}"
        f"l{uy * 6:.1f} {-ux * 6:.1f}z"
    )
    return path(f"M{x:.1f} {y:.1f}L{to_x - ux * 4:.1f} {to_y - uy * 4:.1f}", stroke) + (
        f'<path d="{head}" fill="{stroke}"/>'
    )


def _ops(ops: Iterable[str]) -> str:
    """Return operator names, which may hold spaces, as the words of one attribute."""
    words = " ".join(name.replace(" ", "%20") for name in ops)
    return f' data-op="{escape(words, quote=True)}"' if words else ""


@dataclass(frozen=True, slots=True)
class Svg:
    """A finished drawing; `title` is its text for screen readers.

    A rule highlights the marks of the operator `selected`, so one body serves several selections.
    `px` is the type size: a drawing of 13 was made for the page's pixels, others are scaled.
    """

    width: float
    height: float
    body: str
    title: str
    selected: str = ""
    px: int = 11

    def text(self, scheme: str = "") -> str:
        """Return the drawing in CSS variables, or stand-alone in a scheme's colours."""
        # Several drawings on one page: each has its own pattern names.
        prefix = f"p{next(_numbers)}-"
        name = f" pic-{prefix}on" if self.selected else ""
        lit = _lit(name.strip(), self.selected) if self.selected else ""
        defs = f"<defs>{theme.pattern_defs(prefix)}</defs>" if "url(#p-" in self.body else ""
        body = self.body.replace("url(#p-", f"url(#{prefix}")
        sized = " sized" if self.px == 13 else ""
        style = f"<style>{_STYLE}</style><rect width='100%' height='100%' fill='var(--pane)'/>"
        room = f"min-width:{self.width:g}px;max-width:{self.width * LARGER:g}px"
        wide = "" if scheme else f' style="{room}"'
        role = "group" if "tabindex=" in body else "img"  # no part of an image takes the focus
        text = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="pic{name}{sized}" '
            f'viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" '
            f'height="{self.height:g}"{wide} role="{role}" '
            f'aria-label="{escape(self.title, quote=True)}">'
            f"{style if scheme else ''}{lit}{symbol_rules(body)}{defs}{body}</svg>"
        )
        return theme.resolve_variables(text, scheme) if scheme else text


def stack_drawings(figures: Sequence[Svg]) -> Svg:
    """Return drawings below each other as one."""
    parts, y = [], 0.0
    for figure in figures:
        parts.append(f'<g transform="translate(0 {y:g})">{figure.body}</g>')
        y += figure.height
    width = max((f.width for f in figures), default=0.0)
    return Svg(width, y, "".join(parts), "; ".join(f.title for f in figures))


def _lit(picture: str, op: str) -> str:
    """Return the CSS rules of the selection; house.css has the same rules for the class `lit`."""
    text = op.replace(" ", "%20")
    word = "".join(c if c.isalnum() or c in "_-" else f"\\{ord(c):x} " for c in text)
    mine = f'[data-op~="{word}"]'
    return (
        f"<style>.pic.{picture} text{mine}{{fill:var(--accent);font-weight:600}}"
        f".pic.{picture} .ground{mine}{{fill:var(--soft)}}"
        f".pic.{picture} .way{mine}{{stroke:var(--accent);stroke-width:1.8}}</style>"
    )


# The same rules are in house.css, under `.ironworks svg`.
_STYLE = (
    "text{font:11px var(--ui);fill:var(--ink2);font-variant-numeric:tabular-nums;white-space:pre}"
    ".sized text{font-size:13px}.sized .name{font-size:15px;font-weight:600;fill:var(--ink)}"
    ".sized .big{font-size:16px;font-weight:600;fill:var(--ink)}"
    ".mono{font-family:var(--mono)}.i{fill:var(--ink)}.w{font-weight:600}.q{fill:var(--ink3)}"
    ".a{fill:var(--accent);font-weight:600}.inv{fill:var(--pane)}"
    ".bad{fill:var(--bad);font-weight:600}"
)


def attribute_word(symbol: str) -> str:
    """Return a symbol's name, which may be any text, as one word of an attribute or a rule."""
    return quote(symbol, safe="")


def symbol_attribute(symbols: Iterable[str]) -> str:
    """Return the attribute of a mark that names these symbols; "" for none."""
    words = " ".join(map(attribute_word, dict.fromkeys(symbols)))
    return f' data-sym="{words}"' if words else ""


def symbols_of_dims(dims: Iterable[Dim]) -> tuple[str, ...]:
    """Return the symbols of dims, sorted by name."""
    return tuple(sorted(frozenset[str]().union(*map(symbols_of, dims))))


def symbols_in_text(text: str, symbols: Collection[str]) -> tuple[str, ...]:
    """Return the symbols that a text, such as a formula, names, sorted by name."""
    return tuple(sorted(set(_words(symbols).findall(text)))) if symbols else ()


def symbol_spans(text: str, symbols: Collection[str]) -> str:
    """Return a text with a span around each symbol, so that each can be highlighted alone."""
    if not symbols:
        return escape(text)
    parts = _words(symbols).split(text)
    return "".join(
        f"<tspan{symbol_attribute((part,))}>{escape(part)}</tspan>" if i % 2 else escape(part)
        for i, part in enumerate(parts)
    )


def _words(symbols: Collection[str]) -> re.Pattern[str]:
    names = "|".join(re.escape(s) for s in sorted(symbols, key=len, reverse=True))
    return re.compile(rf"(?<![\w.])({names})(?![\w.])")


def symbol_rules(body: str) -> str:
    """Return one rule for each symbol that a drawing names; "" for none."""
    words = dict.fromkeys(w for attribute in _MARKED.findall(body) for w in attribute.split())
    rules = "".join(_rule(w) for w in list(words)[:MOST_RULES])
    return f"<style>{rules}</style>" if rules else ""


def _rule(symbol: str) -> str:
    lit, mark = f'.pic:has([data-sym~="{symbol}"]:is(:hover,:focus))', f'[data-sym~="{symbol}"]'
    return (
        f"{lit} :is(text,tspan){mark}{{fill:var(--accent);text-decoration:underline}}"
        f"{lit} :is(rect,path,circle){mark}{{stroke:var(--accent);stroke-width:2}}"
    )
