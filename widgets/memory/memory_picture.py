"""The Memory plan picture: the map of the arena, the selected value, and the table.

The table includes the storages that values share by size.
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

NAMED = 3  # named values that share bytes


def table(rows: MemoryRows, policies: PolicyRows) -> Table:
    """Return one row per buffer."""
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
    """Draw the map of the arena, and below it the value of the selected operator."""
    words = selection(rows, policies, selected)
    title = "Memory plan: " + memory_plan.caption(rows)
    return memory_map.figure(rows, words, title, size, selected, symbols)


def selection(rows: MemoryRows, policies: PolicyRows, selected: str) -> list[str]:
    """Describe the selected operator's value: its size, lifetime, and values that share bytes.

    It also says which block the value would have if blocks were reused by size. Return nothing for
    a value without bytes in this plan.
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
    """Yield the block of the value under reuse by size, with the proof."""
    for block in policies.storages:
        for turn in block.turns:
            if turn.name == mine.name:
                why = in_words(turn.reason, {b.name: rows.label(b.name) for b in rows.buffers})
                yield f"reuse by size: {turn.taken} {block.name}{f'; {why}' * bool(why)}"


def memory_rows(s: OnShow) -> tuple[MemoryRows, PolicyRows]:
    """Return the rows of the current plan and those of every policy; BadOption without a plan."""
    if s.plan is None:
        raise BadOption("no memory is planned yet: compile through PLANNED")
    c, sizes = s.now.compiled, dict(s.now.sizes)
    policies = s.house.cached("memory", s.now.sizes, lambda: memory_policies.data(c, sizes, s.plan))
    families = {call.name: call.family for call in s.house.calls}
    return memory_plan.data(s.plan, s.house.labels, families), policies


def _draw(s: OnShow, op: str) -> Drawn:
    rows, policies = memory_rows(s)
    symbols = tuple(b.name for b in s.now.compiled.program.env.symbols)
    return (rows, policies), figure(rows, policies, s.view.size, op, symbols), table(rows, policies)


PICTURE = Picture(
    name="memory",
    title="Memory plan",
    words="The address and lifetime of every intermediate, and the values that share bytes.",
    stage=Stage.PLANNED,
    draw=_draw,
)
