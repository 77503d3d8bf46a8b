"""Marks that name a symbol: pointing at or focusing one highlights all marks of that symbol.

CSS rules do it, so a drawing needs no script.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from html import escape
from urllib.parse import quote

from explorer.ir.shapes.dims import Dim, symbols_of

MOST_RULES = 40
_MARKED = re.compile(r'data-sym="([^"]*)"')


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


def spans(text: str, symbols: Collection[str]) -> str:
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


def style(body: str) -> str:
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
