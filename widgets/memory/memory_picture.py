"""The drawing and the words of the Memory room: below its chart the arena as a map, then the
storages.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.compilation.operators import in_words
from explorer.errors import BadOption
from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, fit, label, path, rect, wrapped
from widgets.draw.symbol_marks import named
from widgets.draw.table import Table, size_text
from widgets.memory import memory_plan, memory_policies
from widgets.memory.memory_plan import MemoryRows
from widgets.memory.memory_policies import PolicyRows, StorageRow, TurnRow
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture
from widgets.relax.shapes_picture import around

LEFT, RIGHT = 84.0, 668.0
STORAGES, TURNS = 8, 5


def table(rows: MemoryRows, policies: PolicyRows) -> Table:
    """One row a buffer."""
    places = {t.name: (s.name, t.reason) for s in policies.storages for t in s.turns}
    plain = memory_plan.table(rows)
    buffers = tuple((*row, *places.get(str(row[1]), ("", ""))) for row in plain.rows)
    return Table((*plain.columns, "block", "why there"), buffers, plain.ops, plain.caption)


def figure(
    rows: MemoryRows, policies: PolicyRows, symbols: Sequence[str] = (), selected: str = ""
) -> Svg:
    """The arena, and the storages with their proofs."""
    marks = memory_plan.arena(rows, selected)
    y = _storages(policies.storages, rows, symbols, selected, marks, 268.0)
    return Svg(680, y, "".join(marks), "Memory plan: " + memory_plan.caption(rows))


def _storages(
    rows: Sequence[StorageRow],
    called: MemoryRows,
    symbols: Sequence[str],
    selected: str,
    marks: list[str],
    y: float,
) -> float:
    """The storage of the selected operator first, then those that are used again."""
    reuses = sum(t.taken in ("reused", "grown", "in place") for s in rows for t in s.turns)
    marks.append(label(12, y, "Blocks, and the values that take turns in them", "i w"))
    said = f"{len(rows)} blocks, {reuses} used again"
    marks.append(label(RIGHT, y, said, "q", anchor="end"))
    ranked = sorted(rows, key=lambda s: (not _on(s, selected), len(s.turns) < 2))
    y += 20
    for storage in ranked[:STORAGES]:
        y = _storage(storage, called, symbols, selected, marks, y)
    if len(rows) > STORAGES:
        rest = f"and {len(rows) - STORAGES} more blocks, all of them in the table"
        marks.append(label(12, y, rest, "q"))
        y += 18
    if not rows:
        marks.append(label(12, y, "no blocks are shared"))
        y += 18
    return y + 4


def _on(s: StorageRow, selected: str) -> bool:
    return bool(selected) and any(selected in t.ops for t in s.turns)


def _storage(
    s: StorageRow,
    called: MemoryRows,
    symbols: Sequence[str],
    selected: str,
    marks: list[str],
    y: float,
) -> float:
    kind = f"{s.dtype}, {'the same in every binding' if s.static else 'symbolic'}"
    speaks = named(s.formula, symbols)
    marks += [
        path(f"M12 {y - 13.5}H{RIGHT}", "var(--line2)"),
        label(32, y, s.name, "i w", anchor="middle"),
        rect(12, y - 11, 40, 15, "transparent", 'rx="2" stroke="var(--edge)"', symbols=speaks),
        label(
            60, y, fit(f"{s.formula} B", 330, mono=True), "mono i", symbols=speaks, title=s.formula
        ),
        label(RIGHT - 68, y, kind, "q", anchor="end"),
        label(RIGHT, y, size_text(s.bytes), "i", anchor="end"),
    ]
    y += 19
    shown = around(s.turns, [selected in t.ops for t in s.turns], TURNS)
    for turn in shown:
        y = _turn(turn, called, symbols, bool(selected) and selected in turn.ops, marks, y)
    if len(s.turns) > TURNS:
        marks.append(label(24, y, f"and {len(s.turns) - TURNS} more values", "q"))
        y += 16
    return y + 4


def _turn(
    t: TurnRow, called: MemoryRows, symbols: Sequence[str], on: bool, marks: list[str], y: float
) -> float:
    reason = in_words(t.reason, {b.name: called.label(b.name) for b in called.buffers})
    said = f"{t.taken}: {reason}" if reason else t.taken
    lines = wrapped(said, RIGHT - 306)
    marks += [
        label(
            24,
            y,
            fit(called.label(t.name), 172),
            "a" if on else "i",
            ops=t.ops,
            title=f"{called.label(t.name)}; {t.name} in the program",
        ),
        label(206, y, f"calls {t.first} to {t.last}", "q"),
        *(label(306, y + 14 * i, line, "", symbols=symbols) for i, line in enumerate(lines)),
    ]
    return y + 14 * len(lines) + 3


def planned(s: OnShow) -> tuple[MemoryRows, PolicyRows]:
    """The rows of the plan on show, and those of every policy; BadOption where there is none."""
    if s.plan is None:
        raise BadOption("no memory is planned yet: compile through PLANNED")
    c, sizes = s.now.compiled, dict(s.now.sizes)
    policies = s.house.kept("memory", s.now.sizes, lambda: memory_policies.data(c, sizes, s.plan))
    return memory_plan.data(s.plan, s.house.labels), policies


def _draw(s: OnShow, op: str) -> Drawn:
    rows, policies = planned(s)
    names = tuple(b.name for b in s.now.compiled.program.env.symbols)
    return (rows, policies), figure(rows, policies, names, op), table(rows, policies)


PICTURE = Picture(
    name="memory",
    title="Memory plan",
    words="Where every intermediate lies in memory, and when; what other policies would take.",
    stage=Stage.PLANNED,
    draw=_draw,
)
