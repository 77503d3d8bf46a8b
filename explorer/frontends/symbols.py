"""The symbols of a model: their bounds, and the values that tiles and pictures start from."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from explorer.errors import BadModelFile, BoundError
from explorer.ir.shapes.dims import Shape, ShapeEnv, SymbolBound, symbols_of

Bounds = Mapping[str, "int | tuple[int, int | None]"]

Key = TypeVar("Key", bound=Hashable)

MOST_SYMBOLS = 128  # every shape may depend on all of them, and is proved equal to others
ROWS, STEPS, PIXELS = 1, 128, 224  # hints: of examples, of a sequence, of a side of an image
NAMED = {"batch": ROWS, "height": PIXELS, "width": PIXELS}
NAMED |= dict.fromkeys(("seq", "len", "time", "step"), STEPS)
UNNAMED = ("", "?")  # what exporters write for a dim of which nothing is known


def symbol_name(text: str, otherwise: str) -> str:
    """The name a model gives to a dim, made an identifier."""
    name = re.sub(r"\W", "_", text or otherwise, flags=re.ASCII)
    return name if re.match(r"[A-Za-z_]", name) else f"n_{name}"


def identifiers(texts: Mapping[Key, str]) -> dict[Key, str]:
    """An identifier for each of the dims of one model, another one for each, like its text."""
    found: dict[Key, str] = {}
    taken: set[str] = set()
    for key, text in texts.items():
        word = first = symbol_name(text, "dim")
        count = 1
        while word in taken:
            count += 1
            word = f"{first}_{count}"
        taken.add(word)
        found[key] = word
    return found


def environment(shapes: Iterable[Shape], bounds: Bounds | None) -> ShapeEnv:
    """Bounds and hints of the symbols of the inputs, of these shapes; BoundError where a bound is
    empty or of no symbol. A hint comes from what a symbol is called, else from where it stands;
    deduction raises it where the model needs more.
    """
    inputs = tuple(shapes)
    known = list(dict.fromkeys(n for s in inputs for d in s for n in sorted(symbols_of(d))))
    if len(known) > MOST_SYMBOLS:
        raise BadModelFile(
            f"has {len(known)} symbolic dims; at most {MOST_SYMBOLS} can be kept apart",
            expected=f"at most {MOST_SYMBOLS}",
            try_="numbers in place of most of them",
        )
    given = dict(bounds or {})
    for name in given:
        if name not in known:
            raise BoundError(
                f"the model has no dim called {name!r}; it has {', '.join(known) or 'none'}",
                where=name,
                expected=", ".join(known),
            )
    return ShapeEnv(tuple(_bound(n, given.get(n), inputs) for n in known))


def _bound(
    name: str, given: int | tuple[int, int | None] | None, inputs: Sequence[Shape]
) -> SymbolBound:
    low, high = (1, None) if given is None else _ends(name, given)
    if low < 0 or (high is not None and high < low):
        raise BoundError(f"the bound {low} .. {high} of {name!r} is empty or negative", where=name)
    lower = name.lower()
    hint = next((value for word, value in NAMED.items() if word in lower), _placed(name, inputs))
    hint = max(hint, low)
    return SymbolBound(name, low, high, hint if high is None else min(hint, high))


def _placed(name: str, inputs: Sequence[Shape]) -> int:
    """The hint of a symbol whose name says nothing: where it leads dims in every shape, there are
    so many examples; elsewhere in shapes of four dims and more it is a side of an image.
    """
    places = [(n, len(s)) for s in inputs for n, d in enumerate(s) if name in symbols_of(d)]
    if all(n == 0 and rank > 1 for n, rank in places):
        return ROWS
    return PIXELS if all(rank > 3 for _, rank in places) else STEPS


def _ends(name: str, given: object) -> tuple[int, int | None]:
    match given:
        case int():
            return given, given
        case (int(low), int() | None as high) if isinstance(given, tuple):
            return low, high
    raise BoundError(
        f"the bound of {name!r} must be a number or a pair (low, high), found {given!r}",
        where=name,
        expected="a number or (low, high)",
        found=given,
    )
