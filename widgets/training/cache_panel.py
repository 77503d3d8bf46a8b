"""The compiler cache about one compilation: what its key is made of, which tier has it, what that
saves, and on a miss what differs from the nearest key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.cli.bug_report.private import without_paths
from explorer.codegen.emitted import STEP
from explorer.compilation import Compilation
from explorer.compiler import kept_where
from explorer.ir.stage import Stage
from explorer.stored.why_not import FOLLOWS
from widgets.draw.svg import Svg, cross, fit, label, path, rect
from widgets.draw.table import Table, time_text
from widgets.model.compiled import Compiled
from widgets.model.on_show import OnShow
from widgets.model.picture import Drawn, Picture

RIGHT, LINE = 768.0, 18.0
COLUMNS = (12.0, 92.0, 330.0, 470.0, 610.0)
MAIN = ("model", "target", "donate", "memory", "compiler", "python", "numpy", "numba", "llvmlite")


@dataclass(frozen=True, slots=True)
class TierRow:
    """A tier: whether the program is there, how many kernels are, what it saves in seconds."""

    name: str
    place: str
    program: bool
    kernels: int
    saves: float


@dataclass(frozen=True, slots=True)
class PartRow:
    """A part of the key; `then` is what it is in the nearest key, where that is another."""

    name: str
    now: str
    then: str | None = None


@dataclass(frozen=True, slots=True)
class CacheRows:
    """`kept`: no step ran for the compilation, which was found whole or remembered. `said` is the
    answer in one sentence.
    """

    said: str
    kept: bool
    kernels: int
    seconds: float
    tiers: tuple[TierRow, ...]
    parts: tuple[PartRow, ...]


def data(c: Compiled) -> CacheRows:
    """Where a compilation lies now. The seconds are those that its steps took when they ran."""
    if not isinstance(c, Compilation):
        return CacheRows("it was not compiled here, and has no key", False, 0, 0.0, (), ())
    found = kept_where(c)
    seconds = sum(step.seconds for step in c.steps)
    code = sum(step.seconds for step in c.steps if step.name == STEP)
    rows = []
    for tier in found.tiers:
        whole = found.kernels == tier.kernels > 0
        saves = seconds if tier.program else code if whole else 0.0
        place = without_paths(tier.place)  # reports are shared
        rows.append(TierRow(tier.name, place, tier.program, tier.kernels, saves))
    then = {d.part: d.then for d in found.why.differs}
    now = dict(found.wanted.parts) if found.wanted else {}
    parts = tuple(PartRow(name, text, then.get(name)) for name, text in now.items())
    gone = tuple(PartRow(name, "", text) for name, text in then.items() if name not in now)
    kept = bool(c.steps) and all(step.kept for step in c.steps)
    said = _said(found.why.untold, found.why.found, len(then))
    return CacheRows(said, kept, found.kernels, seconds, tuple(rows), (*parts, *gone))


def _said(untold: bool, found: bool, differs: int) -> str:
    if untold:
        return "never kept: nobody can tell what a pass or a policy of it will do"
    if found:
        return "a hit: a later process runs no pass and compiles no kernel"
    if differs:
        parts = "1 part differs" if differs == 1 else f"{differs} parts differ"
        return f"a miss: {parts} from the nearest key"
    return "a miss: nothing is kept of a model of this name"


def table(rows: CacheRows) -> Table:
    """A row for each tier, then one for each part of the key."""
    tiers = [
        (f"tier {t.name}", "hit" if t.program else "miss", f"{t.kernels} of {rows.kernels} kernels",
         f"saves {time_text(1e6 * t.saves)}")
        for t in rows.tiers
    ]  # fmt: skip
    differs = any(p.then is not None for p in rows.parts)
    parts = [(p.name, _state(p, differs), p.now, p.then or "") for p in rows.parts]
    none = [("key", "none", rows.said, "")] if not tiers else []
    return Table(
        ("what", "state", "now", "nearest, or saved"), (*tiers, *parts, *none), (), rows.said
    )


def _state(part: PartRow, differs: bool) -> str:
    """Digests of other parts are not compared one by one."""
    if part.then is not None:
        return "differs"
    return "follows" if differs and part.name in FOLLOWS else "same"


def figure(rows: CacheRows) -> Svg:
    """Tiers, then the key: parts that differ first, options that are as the rest below."""
    marks, y = [label(12, 22, f"Compiler cache: {rows.said}", "i w")], 46.0
    marks.append(label(12, y, _how(rows), "q"))
    y += 26
    heads = ("tier", "folder", "whole program", "kernels", "saves")
    marks += [label(x, y, head, "q") for x, head in zip(COLUMNS, heads)]
    for tier in rows.tiers:
        y += LINE
        marks += _tier(tier, rows.kernels, y)
    y += 34
    marks.append(label(12, y, "The key: a digest of these parts", "i w"))
    differ = [p for p in rows.parts if p.then is not None]
    for part in differ:
        y += LINE + 4
        marks += _differing(part, y)
        y += LINE
    y += 6
    same = [p for p in rows.parts if p.then is None]
    main = [p for p in same if p.name in MAIN and p.now]
    for part in main:
        y += LINE
        shown = fit(part.now, RIGHT - 150, mono=True)
        marks += [label(12, y, part.name, "i"), label(150, y, shown, "mono", title=part.now)]
    if len(same) > len(main):
        y += LINE
        rest = f"and {len(same) - len(main)} more parts, all of them in the table"
        marks.append(label(12, y, rest, "q"))
    return Svg(780, y + 16, "".join(marks), f"Compiler cache: {rows.said}")


def _how(rows: CacheRows) -> str:
    ran = (
        "No step ran for this compilation"
        if rows.kept
        else "This compilation was made step by step"
    )
    return f"{ran}; its steps took {time_text(1e6 * rows.seconds)} when they ran."


def _tier(tier: TierRow, kernels: int, y: float) -> Iterator[str]:
    place, program, share, saves = COLUMNS[1:]
    yield path(f"M12 {y - 13:g}H{RIGHT:g}", "var(--line2)")
    yield label(COLUMNS[0], y, tier.name, "i w")
    yield label(place, y, fit(tier.place, program - place - 8), "", title=tier.place)
    if tier.program:
        yield rect(program, y - 9, 10, 10, "var(--ok)", 'rx="2"')
    else:
        yield cross(program + 5, y - 4)
    yield label(program + 16, y, "hit" if tier.program else "miss", "i")
    yield label(share, y, f"{tier.kernels} of {kernels}", "i")
    yield label(saves, y, time_text(1e6 * tier.saves) if tier.saves else "nothing", "i")


def _differing(part: PartRow, y: float) -> Sequence[str]:
    """What it was on one line, what it is on the next, as in a diff."""
    room = RIGHT - 166
    then, now = part.then or "(not there)", part.now or "(not there)"
    return (
        rect(144, y - 13, RIGHT - 144, LINE, "var(--del)"),
        rect(144, y - 13 + LINE, RIGHT - 144, LINE, "var(--add)"),
        label(12, y, fit(part.name, 126), "i w", title=part.name),
        label(150, y, "−", "bad"),
        label(166, y, fit(then, room, mono=True), "mono i", title=then),
        label(150, y + LINE, "+", "i"),
        label(166, y + LINE, fit(now, room, mono=True), "mono i", title=now),
    )


def _draw(s: OnShow, op: str) -> Drawn:
    rows = data(s.now.compiled)
    return rows, figure(rows), table(rows)


PICTURE = Picture(
    name="cache",
    title="Compiler cache",
    words="What the key is made of, which tier has the program, and on a miss what differs.",
    draw=_draw,
    stage=Stage.EMITTED,
)
