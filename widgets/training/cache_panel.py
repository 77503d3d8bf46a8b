"""The compiler cache for one compilation: its key, the tiers that have it, and the time saved.

On a miss, it shows what differs from the nearest key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.cli.last_fault import without_paths
from explorer.codegen.emit import STEP
from explorer.compiler.compilation import Compilation
from explorer.compiler.pipeline import cache_tiers
from explorer.ir.stage import Stage
from explorer.stored.program_key import FOLLOWS
from widgets.draw.svg import Svg, cross, fit, label, path, rect
from widgets.draw.table import Table, time_text
from widgets.model.compiled import Compiled
from widgets.model.picture import Drawn, OnShow, Picture

RIGHT, LINE = 768.0, 18.0
COLUMNS = (12.0, 92.0, 330.0, 470.0, 610.0)
MAIN = ("model", "target", "donate", "memory", "compiler", "python", "numpy", "numba", "llvmlite")


@dataclass(frozen=True, slots=True)
class TierRow:
    """A tier: True if it has the program, its number of kernels, and the seconds it saves."""

    name: str
    place: str
    program: bool
    kernels: int
    saves: float


@dataclass(frozen=True, slots=True)
class PartRow:
    """A part of the key; `then` is its value in the nearest key, if that differs."""

    name: str
    now: str
    then: str | None = None


@dataclass(frozen=True, slots=True)
class CacheRows:
    """The cache's state for a compilation; `summary` is one sentence.

    `from_cache`: no step ran for the compilation, because it came from the cache.
    """

    summary: str
    from_cache: bool
    kernels: int
    seconds: float
    tiers: tuple[TierRow, ...]
    parts: tuple[PartRow, ...]


def data(c: Compiled) -> CacheRows:
    """Return the cache's state now; the seconds are those that its steps took when they ran."""
    if not isinstance(c, Compilation):
        return CacheRows("it was not compiled here, so it has no key", False, 0, 0.0, (), ())
    tiers = cache_tiers(c)
    seconds = sum(step.seconds for step in c.steps)
    code = sum(step.seconds for step in c.steps if step.name == STEP)
    rows = []
    for tier in tiers.tiers:
        has_all = tiers.kernels == tier.kernels > 0
        saves = seconds if tier.program else code if has_all else 0.0
        place = without_paths(tier.place)  # reports must not reveal paths
        rows.append(TierRow(tier.name, place, tier.program, tier.kernels, saves))
    then = {d.part: d.then for d in tiers.why.differs}
    now = dict(tiers.key.parts) if tiers.key else {}
    parts = tuple(PartRow(name, text, then.get(name)) for name, text in now.items())
    gone = tuple(PartRow(name, "", text) for name, text in then.items() if name not in now)
    from_cache = bool(c.steps) and all(step.cached for step in c.steps)
    summary = _summarize(tiers.why.is_unstorable, tiers.why.is_cached, len(then))
    return CacheRows(summary, from_cache, tiers.kernels, seconds, tuple(rows), (*parts, *gone))


def _summarize(unhashable: bool, hit: bool, differs: int) -> str:
    if unhashable:
        return "never cached: a pass or a policy of it cannot be hashed"
    if hit:
        return "a hit: a later process runs no pass and compiles no kernel"
    if differs:
        parts = "1 part differs" if differs == 1 else f"{differs} parts differ"
        return f"a miss: {parts} from the nearest key"
    return "a miss: no model of this name is cached"


def table(rows: CacheRows) -> Table:
    """Return one row per tier, then one per part of the key."""
    tiers = [
        (f"tier {t.name}", "hit" if t.program else "miss", f"{t.kernels} of {rows.kernels} kernels",
         f"saves {time_text(1e6 * t.saves)}")
        for t in rows.tiers
    ]  # fmt: skip
    differs = any(p.then is not None for p in rows.parts)
    parts = [(p.name, _state(p, differs), p.now, p.then or "") for p in rows.parts]
    none = [("key", "none", rows.summary, "")] if not tiers else []
    return Table(
        ("what", "state", "now", "nearest, or saved"), (*tiers, *parts, *none), (), rows.summary
    )


def _state(part: PartRow, differs: bool) -> str:
    """Return the state of a part; a digest that follows from other parts is not compared."""
    if part.then is not None:
        return "differs"
    return "follows" if differs and part.name in FOLLOWS else "same"


def figure(rows: CacheRows) -> Svg:
    """Draw the tiers, then the key: parts that differ first, then the main equal parts."""
    marks, y = [label(12, 22, f"Compiler cache: {rows.summary}", "i w")], 46.0
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
        remainder = f"and {len(same) - len(main)} more parts, all of them in the table"
        marks.append(label(12, y, remainder, "q"))
    return Svg(780, y + 16, "".join(marks), f"Compiler cache: {rows.summary}")


def _how(rows: CacheRows) -> str:
    ran = (
        "No step ran for this compilation"
        if rows.from_cache
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
    """Draw the old value on one line and the new one on the next, as in a diff."""
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
    words="The parts of the cache key, the tiers with the program, and why a miss differs.",
    draw=_draw,
    stage=Stage.EMITTED,
)
