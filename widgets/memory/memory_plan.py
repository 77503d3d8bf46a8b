"""The Memory plan picture: address and lifetime of each intermediate in the arena.

The map has calls from left to right and bytes of the arena upwards, with the live bytes at each
call and the selected value below it. The table includes the storages that values share by size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

import plotly.graph_objects as go

from explorer.compiler.operators import in_words
from explorer.ir.decisions.memory_plan import BufferPlacement
from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.views.memory import MemoryRows, begin, memory_rows
from widgets.draw import theme
from widgets.draw.plots import colours, styled
from widgets.draw.slide import LINE, PX, cut_to, label_width, name_lines, tip
from widgets.draw.svg import Svg, label, path, rect
from widgets.draw.table import Mark, Sentence, Table, lit_by, size_text
from widgets.memory.memory_policies import PolicyRows, policy_rows, required_plan
from widgets.model.picture import Drawn, OnShow, Picture

NAMED = 3  # named values that share bytes
MIB = 2**20
FAR = 3  # a policy this many times above the others is hidden at first
LINES = {  # of a policy: ink, width and dashes
    "no sharing": ("ink3", 1, "dash"),
    "packed": ("ink", 1.6, "solid"),
    "reuse by size": ("ink2", 1.6, "longdash"),
    "worst case": ("ink2", 2, "dot"),
}
TOP, AXIS = 26.0, 24.0  # above the map; call numbers below it
STRIP, LOW = 84.0, 400  # height of the live bytes; minimum page height for them
MARGIN, TICK = 12.0, 44.0  # right margin; minimum distance of labelled addresses
HATCH = 7.0  # width of the writer's hatch at the left of a box
TINY = 1.6  # smaller boxes, in pixels, are merged without text


def formula_text(b: BufferPlacement) -> str:
    """Return a buffer's byte formula as " = 4*n", "" if it is a plain number."""
    return f" = {b.formula}" if b.formula and not b.formula.isdigit() else ""


def table(rows: MemoryRows, policies: PolicyRows) -> Table:
    """Return one row per buffer, with its block under reuse by size."""
    blocks = {t.name: (s.name, t.reason) for s in policies.storages for t in s.turns}
    buffers = rows.buffers + rows.aliases
    columns = ("buffer", "in the program", "bytes", "formula", "offset", "first call", "last call")
    return Table(
        (*columns, "alias of", "block", "why there"),
        tuple(
            (
                rows.label(b.name),
                b.name,
                b.bytes,
                b.formula,
                b.offset,
                b.first,
                b.last,
                b.alias_of,
                *blocks.get(b.name, ("", "")),
            )
            for b in buffers
        ),
        tuple(tuple(sorted(b.origin)) for b in buffers),
        caption(rows),
        see(rows),
    )


def caption(rows: MemoryRows) -> str:
    """Compare planned with naive bytes in one line."""
    saved = 1 - rows.planned_bytes / rows.naive_bytes if rows.naive_bytes else 0
    return (
        f"packed {size_text(rows.planned_bytes)}, no sharing {size_text(rows.naive_bytes)} "
        f"({saved:.0%} saved), live at peak {size_text(max(rows.live, default=0))}"
    )


def see(rows: MemoryRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the planned bytes, the peak, and the largest value's sharers."""
    if not rows.buffers:
        return (("No value of this program lies in memory between two calls.",),)
    taken = Mark(size_text(rows.planned_bytes), "taken")
    share = rows.planned_bytes / rows.naive_bytes if rows.naive_bytes else 1.0
    all_values = size_text(rows.naive_bytes)
    peak, alive = rows.peak, rows.alive(rows.peak)
    most, count = rows.largest[0], len(rows.largest)
    others = len(rows.sharing(most))
    lead = "is the largest" if count == 1 else f"is one of the {count:,} largest"
    return (
        ("The plan takes ", taken, f", {share:.0%} of the {all_values} that all values take."),
        (
            "The peak is at ",
            Mark(written_at(rows, peak), "peak"),
            ": ",
            Mark(counted(len(alive), "value"), "alive"),
            f" live, {size_text(rows.live[peak])}.",
        ),
        (
            Mark(rows.label(most.name), "largest"),
            f" {lead}, {size_text(most.bytes)}, and shares its bytes with ",
            *((Mark(counted(others, "other"), "sharer"), ".") if others else ("no other.",)),
        ),
    )


def written_at(rows: MemoryRows, call: int) -> str:
    """Return the display name of a call: that of the largest buffer that it writes."""
    mine = [b for b in rows.buffers if b.first == call]
    named = max(mine, key=lambda b: b.bytes, default=None)
    return rows.label(named.name) if named else f"call {call}"


def figure(
    rows: MemoryRows,
    policies: PolicyRows,
    size: tuple[int, int],
    selected: str = "",
    symbols: Sequence[str] = (),
) -> Svg:
    """Draw the map of the arena, and below it the value of the selected operator."""
    words = selection(rows, policies, selected)
    title = "Memory plan: " + caption(rows)
    return draw_map(rows, words, title, size, selected, symbols)


def selection(rows: MemoryRows, policies: PolicyRows, selected: str) -> list[str]:
    """Describe the selected operator's value: its size, lifetime, and values that share bytes.

    It also says which block the value would have if blocks were reused by size. Return nothing for
    a value without bytes in this plan.
    """
    mine = next((b for b in rows.buffers if selected and selected in b.origin), None)
    if mine is None:
        return []
    head = f"{rows.label(mine.name)}: {size_text(mine.bytes)}{formula_text(mine)}"
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


@dataclass(frozen=True, slots=True)
class MapPositions:
    """Positions of calls and bytes: `floor` and `top` of the map, `base` of the live bytes."""

    rows: MemoryRows
    left: float
    right: float
    floor: float
    top: float
    base: float

    def x(self, call: float) -> float:
        """Return the x of the start of a call."""
        return self.left + call / max(1, len(self.rows.live)) * (self.right - self.left)

    def y(self, address: float) -> float:
        """Return the y of a byte of the arena."""
        return self.floor - address / max(1, self.rows.planned_bytes) * (self.floor - self.top)

    def live(self, count: float) -> float:
        """Return the y of a number of live bytes, on the scale of the arena."""
        return self.base - count / max(1, self.rows.planned_bytes) * (STRIP - 4)


def draw_map(
    rows: MemoryRows,
    words: Sequence[str],
    title: str,
    size: tuple[int, int],
    selected: str = "",
    symbols: Sequence[str] = (),
) -> Svg:
    """Draw the map; `words` are lines about the selected operator, as many as fit below it."""
    width, height = size
    words = words[: max(1, (height - 180) // 60)]
    foot = LINE * len(words) + (8 if words else 0)
    strip = STRIP + 26 if height - foot >= LOW else 0.0
    bottom = height - foot - AXIS
    most = max(label_width(size_text(n)) for n in (*_bytes(rows, 1000), rows.planned_bytes, 1023))
    plan = MapPositions(rows, most + 10, width - MARGIN, bottom - strip, TOP, bottom)
    marks = [*_axes(plan, strip > 0), *_boxes(plan, selected), *_peak(plan, strip > 0)]
    for n, line in enumerate(words):
        y = height - 5 - LINE * (len(words) - 1 - n)
        text = cut_to(line, width - 4, bold=n == 0)
        style = "a" if n == 0 else ""
        marks.append(label(0, y, text, style, symbols=symbols, title=line))
    return Svg(width, height, "".join(marks), title, selected, PX)


def _bytes(rows: MemoryRows, high: float) -> list[int]:
    """Return the addresses to label, far enough apart for an arena of `high` pixels."""
    step = 64
    while step * high < TICK * max(1, rows.planned_bytes):
        step *= 2
    return [*range(0, rows.planned_bytes + 1, step)]


def _calls(plan: MapPositions) -> Iterator[int]:
    """Yield the calls to label: all, or every second, fifth, tenth."""
    count, room = len(plan.rows.live), label_width(f"{len(plan.rows.live):,}") + 20
    steps = (n * 10**e for e in range(9) for n in (1, 2, 5))
    step = next(n for n in steps if plan.x(n) - plan.left >= room or n > count)
    yield from range(0, count, step)


def _axes(plan: MapPositions, strip: bool) -> Iterator[str]:
    rows, edge = plan.rows, plan.left - 6
    wide_, high = plan.right - plan.left, plan.floor - plan.top
    ground = rect(plan.left, plan.top, wide_, high, "var(--app)", 'stroke="var(--line2)"')
    free = plan.top + 13 + LINE  # below the label of the arena's size
    for at in _bytes(rows, high):
        y = plan.y(at)
        if y >= free:
            ground += path(f"M{plan.left:.1f} {y:.1f}H{plan.right:.1f}", "var(--line)")
            ground += label(
                edge, y + (4.5 if at else 0), size_text(at) if at else "0", anchor="end"
            )
    total_label = label(edge, plan.top + 10, size_text(rows.planned_bytes), "i w", anchor="end")
    yield lit_by(ground + total_label, "taken")
    if strip:
        yield from _live(plan)
    room, last = plan.right - label_width("call"), 0.0
    for n in _calls(plan):
        text = f"{n:,}"
        x = (plan.x(n) + plan.x(n + 1)) / 2
        if x - label_width(text) / 2 > last + 4 and x + label_width(text) / 2 < room - 10:
            yield label(x, plan.base + 17, text, anchor="middle")
            last = x + label_width(text) / 2
    yield label(plan.right, plan.base + 17, "call", anchor="end")


def _live(plan: MapPositions) -> Iterator[str]:
    """Draw the live bytes at each call, below the map and aligned with it."""
    rows = plan.rows
    words = "live at each call; the line is what the plan takes"
    yield label(plan.left, plan.base - STRIP - 7, cut_to(words, plan.right - plan.left))
    line = f"M{plan.left:.1f} {plan.live(rows.planned_bytes):.1f}H{plan.right:.1f}"
    yield path(line, "var(--line2)")
    d, last = f"M{plan.left:.1f} {plan.base:.1f}", -1
    for n, count in enumerate(rows.live):
        if count != last:
            d, last = d + f"H{plan.x(n):.1f}V{plan.live(count):.1f}", count
    d += f"H{plan.right:.1f}V{plan.base:.1f}z"
    yield lit_by(f'<path d="{d}" fill="var(--line2)" stroke="var(--edge)"/>', "live")


def _peak(plan: MapPositions, strip: bool) -> Iterator[str]:
    """Mark the call with the most live bytes, over the map and in the live bytes."""
    rows = plan.rows
    if not rows.buffers:
        return
    peak, most = rows.peak, size_text(rows.live[rows.peak])
    x0, x1 = plan.x(peak), plan.x(peak + 1)
    x = (x0 + x1) / 2
    texts = (f"peak at {written_at(rows, peak)}: {most} live", f"peak: {most}", "peak")
    text = next((t for t in texts if label_width(t, bold=True) <= plan.right - plan.left), "peak")
    half = label_width(text, bold=True) / 2
    middle = min(max(x, plan.left + half), plan.right - half)
    marks = label(middle, 13, text, "i w", anchor="middle") + tip(x, plan.top - 1, "down")
    if strip:
        high = plan.base - plan.live(rows.live[peak])
        marks += rect(x0, plan.base - high, max(2.0, x1 - x0), high, "var(--ink)")
    yield lit_by(marks, "peak")


def _boxes(plan: MapPositions, selected: str) -> Iterator[str]:
    rows, small = plan.rows, dict[str, str]()
    alive, largest = {b.name for b in rows.alive(rows.peak)}, {b.name for b in rows.largest[:1]}
    sharers = {b.name for most in rows.largest[:1] for b in rows.sharing(most)}
    for b in rows.buffers:
        kinds = [("alive", alive), ("largest", largest), ("sharer", sharers)]
        keys = " ".join(["value", *(word for word, names in kinds if b.name in names)])
        on = bool(selected) and selected in b.origin
        x0, x1 = plan.x(begin(b)), plan.x(b.last + 1)
        y0, y1 = plan.y(b.offset + b.bytes), plan.y(b.offset)
        if min(x1 - x0, y1 - y0) < TINY and not on:  # merged into one path
            w, h = max(1.0, x1 - x0), max(1.0, y1 - y0)
            small[keys] = small.get(keys, "") + f"M{x0:.1f} {y0:.1f}h{w:.1f}v{h:.1f}h-{w:.1f}z"
        else:
            yield lit_by("".join(_box(plan, b, x0, x1, y0, y1, on, b.name in alive)), keys)
    for keys, d in small.items():
        yield lit_by(f'<path d="{d}" fill="var(--edge)"/>', keys)


def _box(
    plan: MapPositions,
    b: BufferPlacement,
    x0: float,
    x1: float,
    y0: float,
    y1: float,
    on: bool,
    alive: bool,
) -> Iterator[str]:
    """Draw a value from the call that writes it to the last that reads it.

    The box has the hatch of its writer, its name and its bytes; values live at the peak have a
    stronger edge.
    """
    rows, w, h = plan.rows, max(2.0, x1 - x0 - 2), max(2.0, y1 - y0 - 2)
    x, y = min(x0 + 1, plan.right - w), max(plan.top, min(y0 + 1, plan.floor - h))
    ops, name, formula = sorted(b.origin), rows.label(b.name), formula_text(b)
    tip_text = f"{name}: {size_text(b.bytes)}{formula}, calls {b.first} to {b.last}"
    tip_text += f"; {b.name} in the program" if b.name != name else ""
    ink, fill = ("accent", "soft") if on else ("ink" if alive else "edge", "pane")
    edge = f'stroke="var(--{ink})" stroke-width="{2.5 if on else 1.5 if alive else 1}"'
    yield rect(x, y, w, h, f"var(--{fill})", edge, title=tip_text, ops=ops)
    family, lead = rows.families.get(b.name, ""), 0.0
    if family and w > 3 * HATCH and h > 6:
        pattern, lead = f"url(#p-{theme.family_token(family)})", HATCH
        yield rect(x + 1.5, y + 1.5, HATCH - 1, h - 3, pattern, 'pointer-events="none"')
    room = w - lead - 8
    lines = name_lines(name, room) or []
    most = int((h - 4) / LINE)
    lines = lines if len(lines) <= most else [name] if label_width(name, bold=True) <= room else []
    if not lines or most < 1:
        return
    size = size_text(b.bytes)
    more = [size] if len(lines) < most and label_width(size) <= room else []
    top = y + (h - LINE * len([*lines, *more])) / 2 + 13
    for n, line in enumerate([*lines, *more]):
        style = ("a" if on else "i w") if n < len(lines) else "i"
        where = x + lead + (w - lead) / 2
        yield label(where, top + LINE * n, line, style, anchor="middle", ops=ops, title=tip_text)


def chart(rows_and_policies: tuple[MemoryRows, PolicyRows], title: str, theme: str) -> go.Figure:
    """Draw the live bytes of intermediates at each call, filled, and a line per policy.

    A policy's line is the bytes that it has taken by then. A line far above all others is hidden
    until its name is clicked.
    """
    (rows, policies), c, figure = rows_and_policies, colours(theme), go.Figure()
    calls = list(range(len(rows.live)))
    figure.add_scatter(
        x=calls,
        y=[count / MIB for count in rows.live],
        name="live",
        mode="lines+markers",
        line={"color": c["ink2"], "shape": "hvh", "width": 1},
        marker={"color": c["accent"], "size": 9, "opacity": 0},
        selected={"marker": {"opacity": 1}},
        unselected={"marker": {"opacity": 0}},
        selectedpoints=[],
        fill="tozeroy",
        fillcolor=c["line"],
        customdata=_words(rows),
        meta={"ops": _ops(rows)},
        hovertemplate="%{customdata}<extra></extra>",
    )
    tops = {p.name: max(p.curve, default=0) for p in policies.policies}
    near = FAR * max((most for name, most in tops.items() if name != "worst case"), default=0)
    for policy in policies.policies:
        if not policy.curve:
            continue
        ink, width, dash = LINES[policy.name]
        figure.add_scatter(
            x=list(range(len(policy.curve))),
            y=[count / MIB for count in policy.curve],
            name=policy.name,
            mode="lines",
            visible="legendonly" if tops[policy.name] > near > 0 else True,
            line={"color": c[ink], "dash": dash, "width": width, "shape": "hvh"},
            customdata=[
                f"call {n}: {policy.name} has taken {size_text(count)}"
                for n, count in enumerate(policy.curve)
            ],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_xaxes(title="call (position in the launch order)")
    figure.update_yaxes(title="intermediates (MiB)", rangemode="tozero")
    return styled(figure, theme, title, 420)


def _ops(rows: MemoryRows) -> list[list[str]]:
    """Return the operators whose values begin to live at each call."""
    ops_by_call: list[set[str]] = [set() for _ in rows.live]
    for b in (*rows.buffers, *rows.aliases):
        ops_by_call[b.first].update(b.origin)
    return list(map(sorted, ops_by_call))


def _words(rows: MemoryRows) -> list[str]:
    """Return the live bytes at each call and the largest buffers."""
    texts, alive, waiting = list[str](), list[BufferPlacement](), list(rows.buffers)[::-1]
    for call, count in enumerate(rows.live):
        while waiting and waiting[-1].first <= call:
            alive.append(waiting.pop())
        alive = [b for b in alive if call <= b.last]
        most = nlargest(3, alive, key=lambda b: b.bytes)
        largest = "".join(f"<br>{rows.label(b.name)}: {size_text(b.bytes)}" for b in most)
        texts.append(f"call {call}: {size_text(count)} in {len(alive)} buffers{largest}")
    return texts


def _draw(s: OnShow, op: str) -> Drawn:
    plan, policies = required_plan(s), policy_rows(s)
    families = {call.name: call.family for call in s.house.calls}
    rows = memory_rows(plan, s.house.labels, families)
    symbols = tuple(b.name for b in s.now.compiled.program.env.symbols)
    return (rows, policies), figure(rows, policies, s.view.size, op, symbols), table(rows, policies)


PICTURE = Picture(
    name="memory",
    title="Memory plan",
    words="The address and lifetime of every intermediate, and the values that share bytes.",
    stage=Stage.PLANNED,
    draw=_draw,
    chart=chart,
)
