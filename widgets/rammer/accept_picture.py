"""The policy's accept decisions: for each wave, does it join the rProgram before it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isclose

from explorer.ir.stage import Stage
from explorer.plain_text import counted
from explorer.rammer.model import Weighed
from widgets.draw.slide import NARROW, PX, cut_to, label_width, tick
from widgets.draw.svg import Svg, label, path, rect
from widgets.draw.table import Mark, Sentence, Table, lit_by, time_text
from widgets.model.picture import Picture
from widgets.rammer.view import WALLS, PolicyWalls, of_walls

ROW, NARROW_ROW, HEAD, FOOT = 38.0, 56.0, 30.0, 30.0
RULE = "time(P1) ≤ time(cur) + time(P2)"


def caption(walls: PolicyWalls) -> str:
    """Describe in one line how many choices were taken."""
    weighed = walls.chosen.weighed
    taken = sum(not c.refused for c in weighed)
    launches = walls.chosen.statistics.launches
    rule = f", a wave joins where {RULE}" if walls.chosen.policy.startswith("wavefront") else ""
    return (
        f"{walls.chosen.policy} on {walls.device}: {counted(len(weighed), 'choice')} weighed, "
        f"{taken} taken, {counted(launches, 'rProgram')}{rule}"
    )


def see(walls: PolicyWalls) -> tuple[Sentence, ...]:
    """Return the key sentences: how many waves join, what that saves, and the rule."""
    shown = _shown(walls)
    if not shown:
        return ((f"The policy {walls.chosen.policy} compares nothing with two times.",),)
    taken = [c for c in shown if not c.refused]
    what = "wave" if all("joined" in dict(c.terms) for c in shown) else "choice"
    sentences: list[Sentence] = [
        (Mark(f"{len(taken)} of {counted(len(shown), what)}", "taken"),
         " join the program before." if what == "wave" else " are taken."),
    ]  # fmt: skip
    saved = sum(map(_gain, taken))
    if saved:
        sentences.append(("That saves ", Mark(_gain_text(saved), "gain"), ", predicted."))
    if what == "wave":
        sentences.append((f"A wave joins where {RULE}.",))
    return tuple(sentences)


def table(walls: PolicyWalls) -> Table:
    """Return one row per choice with both times; a policy without choices shows its launches."""
    rows: list[tuple[str, ...]] = []
    rows += [(*_describe_choice(c), *_times(c), c.refused) for c in walls.chosen.weighed]
    if not rows:
        launches = walls.chosen.statistics.launches
        rows = [(f"{walls.chosen.policy} weighs nothing", "", f"{launches} rPrograms", "", "", "")]
    for weight, chosen, candidates in walls.decided:
        costs = [f"{c.label} {c.refused or time_text(c.cost_us)}" for c in candidates[:2]]
        rows.append((f"products by {weight}", chosen, *(*costs, "", "")[:2], "", ""))
    if walls.order:
        rows.append(("order of the bindings", walls.order, "", "", "", ""))
    columns = ("choice", "taken", "first time", "second time", "difference", "why not")
    return Table(columns, tuple(rows), (), caption(walls), see(walls))


def _describe_choice(c: Weighed) -> tuple[str, str]:
    return c.label, "no" if c.refused else "yes"


def _times(c: Weighed) -> tuple[str, str, str]:
    named = [f"{_words(name)} {us:,.2f} µs" for name, us in c.terms[:2]]
    first, second = (*named, "", "")[:2]
    change = ""
    if len(c.terms) >= 2 and c.terms[1][1]:
        change = f"{c.terms[0][1] / c.terms[1][1] - 1:+.1%}"
    return first, second, change


def _words(name: str) -> str:
    return {"joined": "time(P1)", "apart": "time(cur) + time(P2)"}.get(name, name)


def _shown(walls: PolicyWalls) -> list[Weighed]:
    return [c for c in walls.chosen.weighed if len(c.terms) >= 2]


def _gain(c: Weighed) -> float:
    """Return the saving of the first alternative in microseconds, 0 within rounding."""
    (_, first), (_, second) = c.terms[:2]
    return 0.0 if isclose(first, second) else second - first


def _gain_text(us: float) -> str:
    return f"{abs(us):.2f} µs" if us else "none"


def figure(walls: PolicyWalls, size: tuple[int, int], selected: str = "") -> Svg:
    """Draw two bars per choice, before and after, then the decision and its gain."""
    width, height = size
    shown, narrow = _shown(walls), width < NARROW
    step = NARROW_ROW if narrow else ROW
    most = max(1, int((height - HEAD - FOOT) / step))
    rows, total = shown[:most], max((us for c in shown for _, us in c.terms[:2]), default=0.0)
    gains = max((abs(_gain(c)) for c in shown), default=0.0) or 1.0
    at = _Columns(shown, width, narrow=narrow)
    marks = list(_head(shown, at))
    for n, c in enumerate(rows):
        marks += _row(c, HEAD + n * step, at, total or 1.0, gains)
    if not shown:
        message = f"The policy {walls.chosen.policy} compares nothing with two times."
        marks.append(label(0, 20, cut_to(message, width), "i", title=message))
    marks += _legend(shown, len(rows), size)
    return Svg(width, height, "".join(marks), f"Accept rule: {caption(walls)}", selected, PX)


class _Columns:
    """Horizontal positions of labels, bars, marks and gains."""

    def __init__(self, shown: Sequence[Weighed], width: int, *, narrow: bool) -> None:
        self.narrow, self.width = narrow, width
        self.name = (
            0.0 if narrow else min(150.0, max([60.0, *(label_width(c.label) + 16 for c in shown)]))
        )
        self.gain = width - (116.0 if narrow else max(190.0, width * 0.26))
        self.mark = self.gain - 22
        self.bar = max(20.0, self.mark - 22 - self.name - 66)  # the time follows the bar


def _head(shown: Sequence[Weighed], at: _Columns) -> Iterator[str]:
    if not shown:
        return
    yield label(at.name, 14, "makespan, predicted")
    yield label(at.gain, 14, "gain")


def _row(c: Weighed, y: float, at: _Columns, total: float, most: float) -> Iterator[str]:
    """Draw one choice: before above, after below."""
    top = y + 20 if at.narrow else y
    name = label(at.name if at.narrow else 0, y + (14 if at.narrow else 20), c.label, "i w")
    body = name
    for n, (what, us) in enumerate(reversed(c.terms[:2])):
        at_y = top + 16 * n
        after = n == 1
        tip = f"{_words(what)}: {us:,.2f} µs"
        w = max(1.0, at.bar * us / total)
        ink = "var(--ink2)" if after else "none"
        body += rect(at.name, at_y + 1, w, 12, ink, 'stroke="var(--ink2)"', title=tip)
        body += label(at.name + w + 6, at_y + 12, f"{us:,.2f}", "i" if after else "", title=tip)
    taken = not c.refused
    yield lit_by(body, f"{'taken' if taken else 'refused'}")
    yield lit_by(tick(at.mark, top + 15, good=taken), "taken" if taken else "refused")
    yield lit_by("".join(_gain_bar(c, top + 8, at, most)), "gain" if taken else "refused")
    foot = y + (NARROW_ROW if at.narrow else ROW) - 4
    yield path(f"M0 {foot:g}H{at.width:g}", "var(--line)")


def _gain_bar(c: Weighed, y: float, at: _Columns, most: float) -> Iterator[str]:
    """Draw the gain of joining on a scale of its own; a loss is outlined."""
    gain = _gain(c)
    words = f"{'costs ' if gain < 0 else ''}{_gain_text(gain)}"
    room = at.width - at.gain - label_width(words) - 12
    w, good = room * abs(gain) / most, gain >= 0
    edge = 'stroke="var(--ink2)"' if good else 'stroke="var(--bad)"'
    yield rect(at.gain, y, w, 14, "var(--ink2)" if good else "none", edge, title=c.refused or words)
    yield label(at.gain + w + 6, y + 12, words, "i" if good else "bad", title=c.refused or words)


def _legend(shown: Sequence[Weighed], drawn: int, size: tuple[int, int]) -> Iterator[str]:
    if not shown:
        return
    y, x = size[1] - 9.0, 0.0
    remainder = f"{counted(len(shown) - drawn, 'more')}" if len(shown) > drawn else ""
    room = size[0] - (label_width(remainder) + 14 if remainder else 0)
    first, second = (_words(name) for name, _ in shown[0].terms[:2])
    joined = "joined" in dict(shown[0].terms)
    names = (("apart: " if joined else "") + second, ("joined: " if joined else "") + first)
    for n, words in enumerate(names):
        if x + 30 + label_width(words) > room:
            break
        ink = "var(--ink2)" if n else "none"
        yield rect(x + 1, y - 11, 22, 12, ink, 'stroke="var(--ink2)"') + label(x + 30, y, words)
        x += 52 + label_width(words)
    if remainder:
        remainder = remainder.removesuffix("s")
        yield label(size[0], y, remainder, anchor="end")


PICTURE = Picture(
    name="accept",
    title="Accept rule",
    words="For each wave, if the policy merged it into the rProgram before it, with both times.",
    stage=Stage.RAMMED,
    family=WALLS,
    draw=of_walls(figure, table),
)
