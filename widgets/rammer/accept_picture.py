"""What the policy weighed: for each wave whether it joins the rProgram before it, by its times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isclose

from explorer.ir.stage import Stage
from explorer.rammer.model import Weighed
from widgets.draw.see import Mark, Sentence, lit_by
from widgets.draw.slide import NARROW, PX, cut_to, tick, wide
from widgets.draw.svg import Svg, label, path, rect
from widgets.draw.table import Table, count_text, time_text
from widgets.model.picture import Picture
from widgets.rammer.view import WALLS, Rammed, of_walls

ROW, NARROW_ROW, HEAD, FOOT = 38.0, 56.0, 30.0, 30.0
RULE = "time(P1) ≤ time(cur) + time(P2)"


def caption(found: Rammed) -> str:
    """How many were taken, in one line."""
    weighed = found.chosen.weighed
    taken = sum(not c.refused for c in weighed)
    launches = found.chosen.account.launches
    rule = f", a wave joins where {RULE}" if found.chosen.policy.startswith("wavefront") else ""
    return (
        f"{found.chosen.policy} on {found.device}: {count_text(len(weighed), 'choice')} weighed, "
        f"{taken} taken, {count_text(launches, 'rProgram')}{rule}"
    )


def see(found: Rammed) -> tuple[Sentence, ...]:
    """The sentences: how many waves join, what that saves, and the rule."""
    shown = _shown(found)
    if not shown:
        return ((f"The policy {found.chosen.policy} compares nothing with two times.",),)
    taken = [c for c in shown if not c.refused]
    what = "wave" if all("joined" in dict(c.terms) for c in shown) else "choice"
    told: list[Sentence] = [
        (Mark(f"{len(taken)} of {count_text(len(shown), what)}", "taken"),
         " join the program before." if what == "wave" else " are taken."),
    ]  # fmt: skip
    saved = sum(map(_gain, taken))
    if saved:
        told.append(("That saves ", Mark(_gain_text(saved), "gain"), ", predicted."))
    if what == "wave":
        told.append((f"A wave joins where {RULE}.",))
    return tuple(told)


def table(found: Rammed) -> Table:
    """One row a choice, with both times; a policy that weighs nothing has its launches."""
    rows: list[tuple[str, ...]] = []
    rows += [(*_said(c), *_times(c), c.refused) for c in found.chosen.weighed]
    if not rows:
        launches = found.chosen.account.launches
        rows = [(f"{found.chosen.policy} weighs nothing", "", f"{launches} rPrograms", "", "", "")]
    for weight, chosen, candidates in found.decided:
        costs = [f"{c.label} {c.refused or time_text(c.cost_us)}" for c in candidates[:2]]
        rows.append((f"products by {weight}", chosen, *(*costs, "", "")[:2], "", ""))
    if found.order:
        rows.append(("order of the bindings", found.order, "", "", "", ""))
    columns = ("choice", "taken", "one way", "other way", "difference", "why not")
    return Table(columns, tuple(rows), (), caption(found), see(found))


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


def _shown(found: Rammed) -> list[Weighed]:
    return [c for c in found.chosen.weighed if len(c.terms) >= 2]


def _gain(c: Weighed) -> float:
    """What the first way saves over the second, in microseconds; 0 where rounding alone differs."""
    (_, one), (_, other) = c.terms[:2]
    return 0.0 if isclose(one, other) else other - one


def _gain_text(us: float) -> str:
    return f"{abs(us):.2f} µs" if us else "none"


def figure(found: Rammed, size: tuple[int, int], selected: str = "") -> Svg:
    """Two bars a choice, before and after, then whether it was taken and what that gains."""
    width, height = size
    shown, narrow = _shown(found), width < NARROW
    step = NARROW_ROW if narrow else ROW
    most = max(1, int((height - HEAD - FOOT) / step))
    rows, total = shown[:most], max((us for c in shown for _, us in c.terms[:2]), default=0.0)
    gains = max((abs(_gain(c)) for c in shown), default=0.0) or 1.0
    at = _Columns(shown, width, narrow=narrow)
    marks = list(_head(shown, at))
    for n, c in enumerate(rows):
        marks += _row(c, HEAD + n * step, at, total or 1.0, gains)
    if not shown:
        said = f"The policy {found.chosen.policy} compares nothing with two times."
        marks.append(label(0, 20, cut_to(said, width), "i", title=said))
    marks += _legend(shown, len(rows), size)
    return Svg(width, height, "".join(marks), f"Accept rule: {caption(found)}", selected, PX)


class _Columns:
    """Where labels, bars, marks and gains stand."""

    def __init__(self, shown: Sequence[Weighed], width: int, *, narrow: bool) -> None:
        self.narrow, self.width = narrow, width
        self.name = 0.0 if narrow else min(150.0, max([60.0, *(wide(c.label) + 16 for c in shown)]))
        self.gain = width - (116.0 if narrow else max(190.0, width * 0.26))
        self.mark = self.gain - 22
        self.bar = max(20.0, self.mark - 22 - self.name - 66)  # behind a bar stands its time


def _head(shown: Sequence[Weighed], at: _Columns) -> Iterator[str]:
    if not shown:
        return
    yield label(at.name, 14, "makespan, predicted")
    yield label(at.gain, 14, "gain")


def _row(c: Weighed, y: float, at: _Columns, total: float, most: float) -> Iterator[str]:
    """One choice: before above, after below."""
    top = y + 20 if at.narrow else y
    name = label(at.name if at.narrow else 0, y + (14 if at.narrow else 20), c.label, "i w")
    body = name
    for n, (what, us) in enumerate(reversed(c.terms[:2])):
        at_y = top + 16 * n
        after = n == 1
        said = f"{_words(what)}: {us:,.2f} µs"
        w = max(1.0, at.bar * us / total)
        ink = "var(--ink2)" if after else "none"
        body += rect(at.name, at_y + 1, w, 12, ink, 'stroke="var(--ink2)"', title=said)
        body += label(at.name + w + 6, at_y + 12, f"{us:,.2f}", "i" if after else "", title=said)
    taken = not c.refused
    yield lit_by(body, f"{'taken' if taken else 'refused'}")
    yield lit_by(tick(at.mark, top + 15, good=taken), "taken" if taken else "refused")
    yield lit_by("".join(_gain_bar(c, top + 8, at, most)), "gain" if taken else "refused")
    foot = y + (NARROW_ROW if at.narrow else ROW) - 4
    yield path(f"M0 {foot:g}H{at.width:g}", "var(--line)")


def _gain_bar(c: Weighed, y: float, at: _Columns, most: float) -> Iterator[str]:
    """What joining gains, on a scale of its own; outlined where it would cost as much."""
    gain = _gain(c)
    words = f"{'costs ' if gain < 0 else ''}{_gain_text(gain)}"
    room = at.width - at.gain - wide(words) - 12
    w, good = room * abs(gain) / most, gain >= 0
    edge = 'stroke="var(--ink2)"' if good else 'stroke="var(--bad)"'
    yield rect(at.gain, y, w, 14, "var(--ink2)" if good else "none", edge, title=c.refused or words)
    yield label(at.gain + w + 6, y + 12, words, "i" if good else "bad", title=c.refused or words)


def _legend(shown: Sequence[Weighed], drawn: int, size: tuple[int, int]) -> Iterator[str]:
    if not shown:
        return
    y, x = size[1] - 9.0, 0.0
    rest = f"{count_text(len(shown) - drawn, 'more')}" if len(shown) > drawn else ""
    room = size[0] - (wide(rest) + 14 if rest else 0)
    first, second = (_words(name) for name, _ in shown[0].terms[:2])
    joined = "joined" in dict(shown[0].terms)
    names = (("apart: " if joined else "") + second, ("joined: " if joined else "") + first)
    for n, words in enumerate(names):
        if x + 30 + wide(words) > room:
            break
        ink = "var(--ink2)" if n else "none"
        yield rect(x + 1, y - 11, 22, 12, ink, 'stroke="var(--ink2)"') + label(x + 30, y, words)
        x += 52 + wide(words)
    if rest:
        rest = rest.removesuffix("s")
        yield label(size[0], y, rest, anchor="end")


PICTURE = Picture(
    name="accept",
    title="Accept rule",
    words="For each wave whether the policy let it join the rProgram before it, by their times.",
    stage=Stage.RAMMED,
    family=WALLS,
    draw=of_walls(figure, table),
)
