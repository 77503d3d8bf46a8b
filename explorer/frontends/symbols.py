"""Symbols of a model: their bounds, and their hints, from which tiles and pictures start."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from explorer.errors import BadModelFile, BoundError
from explorer.ir.shapes.dims import Shape, ShapeEnv, SymbolBound, symbols_of

Bounds = Mapping[str, "int | tuple[int, int | None]"]

Key = TypeVar("Key", bound=Hashable)

MOST_SYMBOLS = 128  # every shape may depend on all of them and is compared with others
ROWS, STEPS, PIXELS = 1, 128, 224  # hints: of examples, of a sequence, of an image's width
NAMED = {"batch": ROWS, "height": PIXELS, "width": PIXELS}
NAMED |= dict.fromkeys(("seq", "len", "time", "step"), STEPS)
UNNAMED = ("", "?")  # what exporters write for an unknown dim


def symbol_name(text: str, otherwise: str) -> str:
    """Return a model's name of a dim, made an identifier."""
    name = re.sub(r"\W", "_", text or otherwise, flags=re.ASCII)
    return name if re.match(r"[A-Za-z_]", name) else f"n_{name}"


def identifiers(texts: Mapping[Key, str]) -> dict[Key, str]:
    """Return a distinct identifier for each dim of a model, similar to its text."""
    names: dict[Key, str] = {}
    taken: set[str] = set()
    for key, text in texts.items():
        word = first = symbol_name(text, "dim")
        count = 1
        while word in taken:
            count += 1
            word = f"{first}_{count}"
        taken.add(word)
        names[key] = word
    return names


def symbol_environment(shapes: Iterable[Shape], bounds: Bounds | None) -> ShapeEnv:
    """Return bounds and hints of the symbols in the shapes of a model's inputs.

    A hint follows from a symbol's name, else from its position. Inference raises it where the model
    needs more.

    Raises:
        BoundError: a bound is empty, or names no symbol.
    """
    inputs = tuple(shapes)
    names = list(dict.fromkeys(n for s in inputs for d in s for n in sorted(symbols_of(d))))
    if len(names) > MOST_SYMBOLS:
        raise BadModelFile(
            f"has {len(names)} symbolic dims; at most {MOST_SYMBOLS} are supported",
            expected=f"at most {MOST_SYMBOLS}",
            try_="numbers in place of most of them",
        )
    requested = dict(bounds or {})
    for name in requested:
        if name not in names:
            raise BoundError(
                f"the model has no dim called {name!r}; it has {', '.join(names) or 'none'}",
                where=name,
                expected=", ".join(names),
            )
    return ShapeEnv(tuple(_bound(n, requested.get(n), inputs) for n in names))


def _bound(
    name: str, request: int | tuple[int, int | None] | None, inputs: Sequence[Shape]
) -> SymbolBound:
    low, high = (1, None) if request is None else _bound_ends(name, request)
    if low < 0 or (high is not None and high < low):
        raise BoundError(f"the bound {low} .. {high} of {name!r} is empty or negative", where=name)
    lower = name.lower()
    hint = next(
        (value for word, value in NAMED.items() if word in lower), _hint_by_position(name, inputs)
    )
    hint = max(hint, low)
    return SymbolBound(name, low, high, hint if high is None else min(hint, high))


def _hint_by_position(name: str, inputs: Sequence[Shape]) -> int:
    """Return the hint of a symbol whose name says nothing.

    A symbol that is the first dim of every shape counts examples. Elsewhere, in shapes of four or
    more dims, it is an image's width or height.
    """
    places = [(n, len(s)) for s in inputs for n, d in enumerate(s) if name in symbols_of(d)]
    if all(n == 0 and rank > 1 for n, rank in places):
        return ROWS
    return PIXELS if all(rank > 3 for _, rank in places) else STEPS


def _bound_ends(name: str, request: object) -> tuple[int, int | None]:
    match request:
        case int():
            return request, request
        case (int(low), int() | None as high) if isinstance(request, tuple):
            return low, high
    raise BoundError(
        f"the bound of {name!r} must be a number or a pair (low, high), found {request!r}",
        where=name,
        expected="a number or (low, high)",
        actual=request,
    )
