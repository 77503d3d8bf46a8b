"""Labels of calls and values, the rows that an operator's name selects, and shortened tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from explorer.compiler.operators import Operator, call_labels, operators, value_labels
from explorer.errors import BadOption, did_you_mean
from explorer.ir.stage import Stage

if TYPE_CHECKING:
    from explorer.compiler.compilation import Compilation

PROGRAM = "in the program"  # heading of the column of binding names


def labels(c: Compilation) -> Mapping[str, str]:
    """Return the label of each call by its binding."""
    return call_labels(source_operators(c), c.program)


def labels_before_fusion(c: Compilation) -> Mapping[str, str]:
    """Return the label of each value of the program before kernels were fused."""
    steps = [s.before for s in c.snapshots if s.stage == Stage.WELDED]
    return value_labels(source_operators(c), steps[0] if steps else c.program)


def source_operators(c: Compilation) -> tuple[Operator, ...]:
    """Return the operators of the source."""
    return operators(c.model.program, c.program)


def resolve_name(c: Compilation, op: str | None) -> str | None:
    """Return the operator, else the kernel, with that name or label; else the name itself."""
    mine = {o.name for o in source_operators(c)} | {
        v.name for _, b in c.program.bindings() for v in b.vars
    }
    if op is None or op in mine:
        return op
    by_label = {label: call for call, label in labels(c).items()}
    by_label |= {o.label: o.name for o in source_operators(c)}
    return by_label.get(op, op)


SHOWN = 20  # rows of a list that the terminal gets; `--json` has all of them


def is_about(op: str | None, name: str, origin: frozenset[str], more: Sequence[str] = ()) -> bool:
    """Return True if a row concerns the operator; True for all if `op` is None."""
    return op is None or op == name or op in origin or op in more


def unknown_name(c: Compilation, op: str, names: Iterable[str]) -> BadOption:
    """Return an error for an unknown operator or kernel, with similar names."""
    dropped = dict(c.program.dropped)
    if op in dropped:
        return BadOption(f"no kernel comes from {op!r}: {dropped[op]}", where=op, actual=op)
    sources = [s.name for s in c.model.program.sources]
    hint = _hint(op, list(dict.fromkeys([*names, *sources])))
    return BadOption(f"the model has no operator or kernel named {op!r}{hint}", where=op, actual=op)


def _hint(op: str, names: Sequence[str]) -> str:
    """Return similar names; else the first names of the model."""
    if near := did_you_mean(op, names):
        return near
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return f"; it has {', '.join(map(repr, names[:3]))}{more}" if names else ""


def shorten_rows(
    rows: Sequence[Sequence[str]], op: str | None, columns: int
) -> list[Sequence[str]]:
    """Shorten a table to the rows that a terminal gets, unless one operator was requested."""
    if op is not None or len(rows) <= SHOWN:
        return list(rows)
    last_row = (f"… {len(rows) - SHOWN:,} more with --json", *[""] * (columns - 1))
    return [*rows[:SHOWN], last_row]
