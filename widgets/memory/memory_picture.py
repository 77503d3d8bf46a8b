"""The Memory plan: the map of the arena, what is said of the selected operator's values, and the
words with the blocks in which values take turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.compilation.operators import in_words
from explorer.errors import BadOption
from explorer.ir.decisions.memory_plan import BufferPlacement
from explorer.ir.stage import Stage
from widgets.draw.svg import Svg
from widgets.draw.table import Table, size_text
from widgets.memory import memory_map, memory_plan, memory_policies
from widgets.memory.memory_plan import MemoryRows
from widgets.memory.memory_policies import PolicyRows
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture

NAMED = 3  # of those that share bytes


def table(rows: MemoryRows, policies: PolicyRows) -> Table:
    """One row a buffer."""
    places = {t.name: (s.name, t.reason) for s in policies.storages for t in s.turns}
    plain = memory_plan.table(rows)
    buffers = tuple((*row, *places.get(str(row[1]), ("", ""))) for row in plain.rows)
    columns = (*plain.columns, "block", "why there")
    return Table(columns, buffers, plain.ops, plain.caption, plain.see)


def figure(
    rows: MemoryRows,
    policies: PolicyRows,
    size: tuple[int, int],
    selected: str = "",
    symbols: Sequence[str] = (),
) -> Svg:
    """The map of the arena, and below it the value of the selected operator."""
    words = selection(rows, policies, selected)
    title = "Memory plan: " + memory_plan.caption(rows)
    return memory_map.figure(rows, words, title, size, selected, symbols)


def selection(rows: MemoryRows, policies: PolicyRows, selected: str) -> list[str]:
    """What is said of the selected operator's value: its size and when it lives, whose bytes it
    has, and where it would lie if blocks were used again by size; none where it has no bytes here.
    """
    mine = next((b for b in rows.buffers if selected and selected in b.origin), None)
    if mine is None:
        return []
    head = f"{rows.label(mine.name)}: {size_text(mine.bytes)}{memory_plan.formula_text(mine)}"
    words = [f"{head}, calls {mine.first} to {mine.last}"]
    if others := rows.sharing(mine):
        names = ", ".join(rows.label(b.name) for b in others[:NAMED])
        more = f" and {len(others) - NAMED:,} more" * (len(others) > NAMED)
        words.append(f"its bytes are those of {names}{more} at other calls")
    return [*words, *_in_a_block(rows, policies, mine)]


def _in_a_block(rows: MemoryRows, policies: PolicyRows, mine: BufferPlacement) -> Iterator[str]:
    """The block of the value where blocks are used again by size, and the proof."""
    for block in policies.storages:
        for turn in block.turns:
            if turn.name == mine.name:
                why = in_words(turn.reason, {b.name: rows.label(b.name) for b in rows.buffers})
                yield f"reuse by size: {turn.taken} {block.name}{f'; {why}' * bool(why)}"


def planned(s: OnShow) -> tuple[MemoryRows, PolicyRows]:
    """The rows of the plan on show, and those of every policy; BadOption where there is none."""
    if s.plan is None:
        raise BadOption("no memory is planned yet: compile through PLANNED")
    c, sizes = s.now.compiled, dict(s.now.sizes)
    policies = s.house.kept("memory", s.now.sizes, lambda: memory_policies.data(c, sizes, s.plan))
    families = {call.name: call.family for call in s.house.calls}
    return memory_plan.data(s.plan, s.house.labels, families), policies


def _draw(s: OnShow, op: str) -> Drawn:
    rows, policies = planned(s)
    symbols = tuple(b.name for b in s.now.compiled.program.env.symbols)
    return (rows, policies), figure(rows, policies, s.view.size, op, symbols), table(rows, policies)


PICTURE = Picture(
    name="memory",
    title="Memory plan",
    words="Where every intermediate lies in memory, and when, and which values share bytes.",
    stage=Stage.PLANNED,
    draw=_draw,
)
