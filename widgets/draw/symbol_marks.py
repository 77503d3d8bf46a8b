"""Marks that speak of a symbol: to point at one, or to come to it with the keyboard, lights all
that name the same symbol. Rules of CSS do it, so a drawing needs no script.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from html import escape
from urllib.parse import quote

from explorer.ir.shapes.dims import Dim, symbols_of

MOST_RULES = 40
_MARKED = re.compile(r'data-sym="([^"]*)"')


def word(symbol: str) -> str:
    """A symbol's name, which may be any text, as one word of an attribute and of a rule."""
    return quote(symbol, safe="")


def marked(symbols: Iterable[str]) -> str:
    """The attribute of a mark that speaks of these symbols; "" for none."""
    words = " ".join(map(word, dict.fromkeys(symbols)))
    return f' data-sym="{words}"' if words else ""


def symbols_of_dims(dims: Iterable[Dim]) -> tuple[str, ...]:
    """The symbols of dims, in the order of their names."""
    return tuple(sorted(frozenset[str]().union(*map(symbols_of, dims))))


def named(text: str, symbols: Collection[str]) -> tuple[str, ...]:
    """The symbols that a text, such as a formula, names, in the order of their names."""
    return tuple(sorted(set(_words(symbols).findall(text)))) if symbols else ()


def spans(text: str, symbols: Collection[str]) -> str:
    """A text with each symbol in a span of its own, so that pointing at one lights that one."""
    if not symbols:
        return escape(text)
    parts = _words(symbols).split(text)
    return "".join(
        f"<tspan{marked((part,))}>{escape(part)}</tspan>" if i % 2 else escape(part)
        for i, part in enumerate(parts)
    )


def _words(symbols: Collection[str]) -> re.Pattern[str]:
    names = "|".join(re.escape(s) for s in sorted(symbols, key=len, reverse=True))
    return re.compile(rf"(?<![\w.])({names})(?![\w.])")


def style(body: str) -> str:
    """One rule for each symbol that a drawing speaks of; "" where there is none."""
    words = dict.fromkeys(w for found in _MARKED.findall(body) for w in found.split())
    rules = "".join(_rule(w) for w in list(words)[:MOST_RULES])
    return f"<style>{rules}</style>" if rules else ""


def _rule(symbol: str) -> str:
    lit, mark = f'.pic:has([data-sym~="{symbol}"]:is(:hover,:focus))', f'[data-sym~="{symbol}"]'
    return (
        f"{lit} :is(text,tspan){mark}{{fill:var(--accent);text-decoration:underline}}"
        f"{lit} :is(rect,path,circle){mark}{{stroke:var(--accent);stroke-width:2}}"
    )
