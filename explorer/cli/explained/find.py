"""Which rows an operator or kernel name asks for, and how many a terminal gets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from explorer.errors import BadOption, did_you_mean

if TYPE_CHECKING:
    from explorer.compilation import Compilation

SHOWN = 20  # rows of a list that the terminal gets; `--json` has all of them


def about(op: str | None, name: str, origin: frozenset[str], more: Sequence[str] = ()) -> bool:
    return op is None or op == name or op in origin or op in more


def no_such(c: Compilation, op: str, names: Iterable[str]) -> BadOption:
    dropped = dict(c.program.dropped)
    if op in dropped:
        return BadOption(f"no kernel comes from {op!r}: {dropped[op]}", where=op, actual=op)
    sources = [s.name for s in c.model.program.sources]
    hint = _hint(op, list(dict.fromkeys([*names, *sources])))
    return BadOption(f"the model has no operator or kernel named {op!r}{hint}", where=op, actual=op)


def _hint(op: str, known: Sequence[str]) -> str:
    """The names that are spelt alike or have it in them, in any case; else what names there are."""
    if near := did_you_mean(op, known):
        return near
    more = f" and {len(known) - 3:,} more" if len(known) > 3 else ""
    return f"; it has {', '.join(map(repr, known[:3]))}{more}" if known else ""


def shortened(rows: Sequence[Sequence[str]], op: str | None, columns: int) -> list[Sequence[str]]:
    if op is not None or len(rows) <= SHOWN:
        return list(rows)
    rest = (f"… {len(rows) - SHOWN:,} more with --json", *[""] * (columns - 1))
    return [*rows[:SHOWN], rest]
