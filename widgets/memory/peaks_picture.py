"""Text of the peak memory of each policy, with its formula below the chart."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence
from widgets.draw.svg import Svg, fit, label, wrap_text
from widgets.draw.symbol_marks import symbols_in_text
from widgets.draw.table import Table, size_text
from widgets.memory.memory_picture import memory_rows
from widgets.memory.memory_policies import PolicyRow, PolicyRows
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture

LEFT, RIGHT = 130.0, 628.0


def caption(rows: PolicyRows) -> str:
    """Compare the policy in use with the live bytes, and with the smallest policy."""
    had = [p for p in rows.policies if p.bytes is not None]
    best = min(had, key=lambda p: p.bytes or 0)
    used = next((p for p in had if p.used), best)
    mine, least = used.bytes or 0, best.bytes or 0
    above = f", {mine / rows.least - 1:.0%} more" if mine > rows.least > 0 else ""
    text = f"{size_text(rows.least)} live at once; {used.name} is in use: {size_text(mine)}{above}"
    if least == mine:
        return f"{text}; no policy takes less"
    return f"{text}; {best.name} would take {size_text(least)}"


def see(rows: PolicyRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the policy in use, the smallest, and the largest or refused."""
    had = {n: p.bytes for n, p in enumerate(rows.policies) if p.bytes is not None}
    if not had:
        return ()
    names = [Mark(p.name, f"policy:{n}") for n, p in enumerate(rows.policies)]
    least, most = min(had, key=lambda n: had[n]), max(had, key=lambda n: had[n])
    used = next((n for n in had if rows.policies[n].used), least)
    mine, live = had[used], rows.least
    above = f"{mine / live - 1:.0%} more than " if mine > live > 0 else "no more than "
    if mine > 2 * live > 0:
        above = f"{mine / live:.1f} times "
    at_once = Mark(f"the {size_text(live)} that live at once", "least")
    takes = f" is in use and takes {size_text(mine)}, {above}"
    sentences: list[Sentence] = [(names[used], takes, at_once, ".")]
    if had[least] < mine:
        sentences.append((names[least], f" would take less, {size_text(had[least])}."))
    refused = next((n for n, p in enumerate(rows.policies) if p.bytes is None), None)
    if refused is not None:
        sentences.append((names[refused], f" is not possible: {rows.policies[refused].note}."))
    elif had[most] > mine > 0:
        times = f"{size_text(had[most])}, {had[most] / mine:.3g} times as much."
        sentences.append((names[most], f" would take most, {times}"))
    return tuple(sentences)


def table(rows: PolicyRows) -> Table:
    """Return one row per policy."""
    columns = ("policy", "bytes", "in use", "formula", "what it is")
    cells = tuple(
        ("" if p.bytes is None else p.bytes, "yes" if p.used else "", p.formula, p.note)
        for p in rows.policies
    )
    named_rows = tuple((p.name, *row) for p, row in zip(rows.policies, cells, strict=True))
    return Table(columns, named_rows, (), caption(rows), see(rows))


def figure(rows: PolicyRows, symbols: Sequence[str] = ()) -> Svg:
    """Draw each policy as text with its formula, and the bounds that were used."""
    marks: list[str] = []
    y = 20.0
    for policy in rows.policies:
        y = _policy(policy, symbols, marks, y) + 22
    used, lacking = ", ".join(rows.used) or "none", ", ".join(rows.lacking) or "none"
    marks += [
        label(12, y, "every buffer begins at a multiple of 64 B", "q"),
        label(12, y + 20, "Bounds used", "i"),
        label(LEFT, y + 20, fit(used, RIGHT - LEFT, mono=True), "mono"),
        label(12, y + 38, "Bounds lacking", "i"),
        label(LEFT, y + 38, fit(lacking, RIGHT - LEFT, mono=True), "mono", symbols=symbols),
    ]
    return Svg(640, y + 52, "".join(marks), f"Policies of memory: {caption(rows)}")


def _policy(p: PolicyRow, symbols: Sequence[str], marks: list[str], y: float) -> float:
    """Draw a policy's name, its note, and its formula; return the last line's y."""
    marks.append(label(12, y, p.name, "i w"))
    note = f"not possible: {p.note}" if p.bytes is None else p.note
    lines = [(line, "i", symbols) for line in wrap_text(note, RIGHT - LEFT)]
    formula = f"{int(p.formula):,} B" if p.formula.isdigit() else p.formula
    speaks = symbols_in_text(p.formula, symbols)
    if formula:
        lines += [(x, "mono", speaks) for x in wrap_text(f"= {formula}", RIGHT - LEFT, mono=True)]
    for n, (line, kind, about) in enumerate(lines):
        marks.append(label(LEFT, y + 15 * n, line, kind, symbols=about))
    return y + 15 * (len(lines) - 1)


def _draw(s: OnShow, op: str) -> Drawn:
    _, rows = memory_rows(s)
    symbols = tuple(b.name for b in s.now.compiled.program.env.symbols)
    return rows, figure(rows, symbols), table(rows)


PICTURE = Picture(
    name="peaks",
    title="Memory policies",
    words="The peak bytes of each placement policy for intermediates, and the live bytes.",
    stage=Stage.PLANNED,
    draw=_draw,
)
