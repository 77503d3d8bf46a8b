"""The symbols of a model: their bounds, and the values that tiles and pictures start from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from explorer.errors import BadModelFile, BoundError
from explorer.ir.shapes.dims import ShapeEnv, SymbolBound

Bounds = Mapping[str, "int | tuple[int, int | None]"]

MOST_SYMBOLS = 128  # every shape may depend on all of them, and is proved equal to others
SEQUENCES = (("seq", 128), ("len", 128), ("time", 128), ("step", 128))
HINTS = (("batch", 1), *SEQUENCES, ("height", 224), ("width", 224))


def symbol_name(text: str, otherwise: str) -> str:
    """The name a model gives to a dim, made an identifier."""
    name = re.sub(r"\W", "_", text or otherwise, flags=re.ASCII)
    return name if re.match(r"[A-Za-z_]", name) else f"n_{name}"


def environment(names: Iterable[str], bounds: Bounds | None) -> ShapeEnv:
    """Bounds and hints of the symbols; BoundError where a bound is empty or of no symbol."""
    known = list(dict.fromkeys(names))
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
    return ShapeEnv(tuple(_bound(n, given.get(n)) for n in known))


def _bound(name: str, given: int | tuple[int, int | None] | None) -> SymbolBound:
    low, high = (1, None) if given is None else _ends(name, given)
    if low < 0 or (high is not None and high < low):
        raise BoundError(f"the bound {low} .. {high} of {name!r} is empty or negative", where=name)
    lower = name.lower()
    hint = next((value for word, value in HINTS if word in lower), 1)
    hint = max(hint, low)
    return SymbolBound(name, low, high, hint if high is None else min(hint, high))


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
