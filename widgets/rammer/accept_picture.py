"""What the policy weighed: for each wave whether it joins the rProgram before it, by its times."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.ir.stage import Stage
from explorer.rammer.model import Weighed
from widgets.draw.svg import Svg, fit, label, path, rect, wrapped
from widgets.draw.table import Table, time_text
from widgets.model.picture import Picture
from widgets.rammer.view import WALLS, Rammed, of_walls

WIDTH, LEFT, BAR, WHY, ROW = 780.0, 140.0, 170.0, 500.0, 36.0
BOLD = 1.08  # how much wider bold letters are
MOST = 40  # waves that are drawn; the table has all
RULE = "time(P1) ≤ time(cur) + time(P2)"


def caption(found: Rammed) -> str:
    """How many were taken, in one line."""
    weighed = found.chosen.weighed
    taken = sum(not c.refused for c in weighed)
    launches = found.chosen.account.launches
    rule = f", a wave joins where {RULE}" if found.chosen.policy.startswith("wavefront") else ""
    return (
        f"{found.chosen.policy} on {found.device}: {len(weighed)} choices weighed, {taken} taken, "
        f"{launches} rProgram{'s' * (launches != 1)}{rule}"
    )


def table(found: Rammed) -> Table:
    """One row a choice, with both times; a policy that weighs nothing has its launches."""
    rows = [(*_said(c), *_times(c), c.refused) for c in found.chosen.weighed]
    if not rows:
        launches = found.chosen.account.launches
        rows = [(f"{found.chosen.policy} weighs nothing", "", f"{launches} rPrograms", "", "", "")]
    columns = ("choice", "taken", "one way", "other way", "difference", "why not")
    return Table(columns, tuple(rows), (), caption(found))


def _said(c: Weighed) -> tuple[str, str]:
    return c.label, "no" if c.refused else "yes"


def _times(c: Weighed) -> tuple[str, str, str]:
    named = [f"{_words(name)} {us:,.2f} µs" for name, us in c.terms[:2]]
    one, other = (*named, "", "")[:2]
    change = ""
    if len(c.terms) >= 2 and c.terms[1][1]:
        change = f"{c.terms[0][1] / c.terms[1][1] - 1:+.1%}"
    return one, other, change


def _words(name: str) -> str:
    return {"joined": "time(P1)", "apart": "time(cur) + time(P2)"}.get(name, name)


def figure(found: Rammed) -> Svg:
    """Two bars a choice; the one that was taken is filled."""
    marks = [label(12, 20, fit(caption(found), WIDTH - 24), "i w", title=caption(found))]
    shown = [c for c in found.chosen.weighed if len(c.terms) >= 2][:MOST]
    longest = max((us for c in shown for _, us in c.terms[:2]), default=0.0) or 1.0
    y = 36.0
    if not shown:
        marks.append(label(12, y + 8, "This policy compares nothing with two times.", "q"))
    for c in shown:
        marks += _row(c, y, BAR / longest)
        y += ROW
    rest = len(found.chosen.weighed) - len(shown)
    if rest:
        marks.append(label(12, y + 12, f"and {rest} more, in the table", "q"))
        y += 18
    marks += _decided(found, y + 10)
    y += 10 + 34 * (len(found.decided[:3]) + bool(found.order))
    return Svg(WIDTH, y + 14, "".join(marks), f"Accept rule: {caption(found)}")


def _row(c: Weighed, y: float, scale: float) -> Iterator[str]:
    yield label(12, y + 12, fit(c.label, LEFT - 24), "i", title=c.label)
    for n, (name, us) in enumerate(c.terms[:2]):
        taken = bool(c.refused) == bool(n)
        at = y + 14 * n
        fill = "var(--t2)" if taken else "none"
        yield rect(LEFT, at, max(1.0, us * scale), 11, fill, 'stroke="var(--ink2)"')
        words = f"{_words(name)} = {time_text(us)}"
        yield label(LEFT + us * scale + 6, at + 10, words, "i" if taken else "")
    less = abs(c.terms[0][1] - c.terms[1][1])
    said = f"apart: {c.refused}" if c.refused else f"joined: {less:.2f} µs less"
    if "joined" not in dict(c.terms):
        said = c.refused or f"taken: {less:.2f} µs less"
    room = (WIDTH - WHY - 12) / (BOLD if c.refused else 1)
    lines = wrapped(said, room)
    if len(lines) > 2:
        lines = [lines[0], fit(" ".join(lines[1:]), room)]
    for n, line in enumerate(lines):
        at = y + (12 if len(lines) == 1 else 10 + 14 * n)
        yield label(WHY, at, line, "bad" if c.refused else "q", title=said)
    yield path(f"M12 {y + ROW - 6:g}H{WIDTH - 12:g}", "var(--line)")


def _decided(found: Rammed, y: float) -> Iterator[str]:
    """The named transforms before Rammer: products done together over time, the order taken."""
    if found.order:
        yield label(12, y + 12, f"bindings run {found.order}", "i")
        y += 34
    for weight, chosen, candidates in found.decided[:3]:
        costs = ", ".join(f"{c.label}: {c.refused or time_text(c.cost_us)}" for c in candidates[:2])
        said = f"products by {weight} are done {chosen}: {costs}"
        yield label(12, y + 12, fit(said, WIDTH - 24), "i", title=said)
        y += 34


PICTURE = Picture(
    name="accept",
    title="Accept rule",
    words="For each wave whether the policy let it join the rProgram before it, by their times.",
    stage=Stage.RAMMED,
    family=WALLS,
    draw=of_walls(figure, table),
)
