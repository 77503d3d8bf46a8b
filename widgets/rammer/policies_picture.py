"""The policies side by side: how long each wall is, what fills it, and what it costs to begin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.ir.stage import Stage
from explorer.tuning.compare_policies import BASELINE, PolicyWall
from widgets.draw.see import Mark, Sentence, lit_by
from widgets.draw.slide import NARROW, PX, choice, wide
from widgets.draw.svg import Svg, label, rect
from widgets.draw.table import Table, count_text, time_text
from widgets.model.brick_wall import NAMES
from widgets.model.picture import Picture
from widgets.rammer.view import MOST_COUNTED, TELLING, WALLS_APART, Rammed, of_walls, rammed_apart

HEAD, FOOT = 8.0, 34.0
ROW, BAR = 96.0, 40.0  # pixels of a policy, and of its bar, at most
TWO_LAYER = "op-by-op (two layers)"


def caption(found: Rammed) -> str:
    """The chosen policy against two-layer scheduling in one line."""
    one, base = found.chosen, found.baseline
    a = one.account
    ratio = base.account.total_us / a.total_us if a.total_us else 1.0
    return (
        f"{one.policy} on {found.units} of {found.device}, {found.kind}: "
        f"{time_text(a.total_us)}, {a.core_busy:.1%} busy, {ratio:.2f}× two-layer scheduling"
    )


def why_more(found: Rammed) -> tuple[Sentence, ...]:
    """Why more cores than this machine has are shown, or where the policies would differ."""
    if not found.few and found.own and not found.gpu and found.spread < TELLING:
        here = found.units
        return ((f"On {here} the policies hardly differ: try more cores, or the device v100.",),)
    if not found.few:
        return ()
    few = count_text(found.few, "core")
    return ((f"On {few} of this machine policies hardly differ: planned for {found.units}.",),)


def see(found: Rammed) -> tuple[Sentence, ...]:
    """The sentences: the shortest and the longest wall, and why the chosen one is idle."""
    sides = sorted(found.sides, key=lambda s: s.account.total_us)
    best, worst = sides[0], sides[-1]
    times = best.account.total_us, worst.account.total_us
    told: list[Sentence] = [
        (Mark(best.policy, f"policy:{best.policy}"), f" takes {time_text(times[0])}, ",
         Mark(worst.policy, f"policy:{worst.policy}"),
         f" {time_text(times[1])}: {times[1] / (times[0] or 1):.2f}×."),
    ]  # fmt: skip
    idle = max(found.chosen.account.idle, key=lambda part: part[1], default=None)
    if idle is not None:
        share = idle[1] / (found.chosen.account.units * (found.chosen.account.total_us or 1))
        cause = NAMES.get(idle[0], idle[0])
        words = Mark(f"{cause}, {share:.0%}", f"idle:{idle[0]}")
        told.append((f"Most idle time of {found.chosen.policy} is ", words, "."))
    return (*told, *why_more(found))


def table(found: Rammed) -> Table:
    """One row a policy."""
    columns = (
        "policy",
        "predicted µs",
        "two-layer ÷ it",
        "busy",
        "cores busy",
        "rPrograms",
        "launch µs",
        "barriers",
        "tasks",
    )
    base = found.baseline.account.total_us
    rows = tuple(
        (
            s.policy,
            round(s.account.total_us, 2),
            round(base / s.account.total_us, 3) if s.account.total_us else 1.0,
            f"{s.account.busy:.1%}",
            f"{s.account.core_busy:.1%}",
            s.account.launches,
            round(s.account.overhead_us, 2),
            found.barriers(s),
            s.account.bricks,
        )
        for s in found.sides
    )
    return Table(columns, rows, (), caption(found), see(found))


def parts_us(s: PolicyWall) -> tuple[tuple[str, float], ...]:
    """What fills a wall, in microseconds of its length."""
    a = s.account
    return (("busy", a.total_us * a.busy), *((cause, us / a.units) for cause, us in a.idle))


def figure(found: Rammed, size: tuple[int, int], selected: str = "") -> Svg:
    """A bar a policy, as long as its wall: what is busy, then idle time by cause."""
    width, height = size
    narrow = width < NARROW
    causes = [c for s in found.sides for c, us in parts_us(s) if us > 0]
    legend = list(_legend(list(dict.fromkeys(causes)), height, width))
    low = height - 24.0 * (1 + len(legend) - 1) - 14
    row = min(ROW, (low - HEAD) / max(1, len(found.sides)))
    narrow = narrow and row >= 48
    names = max((wide(_name(s), bold=True) for s in found.sides), default=0.0)
    x = 0.0 if narrow else names + 16
    longest = max((s.account.total_us for s in found.sides), default=0.0) or 1.0
    ends = max((wide(_end(s, found), bold=True) for s in found.sides), default=0.0)
    scale = (width - x - ends - 12) / longest
    marks = list[str]()
    for n, s in enumerate(found.sides):
        marks += _row(s, found, x, HEAD + n * row, row, scale, narrow=narrow)
    marks += [m for line in legend for m in line]
    return Svg(width, height, "".join(marks), f"Policies: {caption(found)}", selected, PX)


def _name(s: PolicyWall) -> str:
    return TWO_LAYER if s.policy == BASELINE else s.policy


def _end(s: PolicyWall, found: Rammed) -> str:
    base, us = found.baseline.account.total_us, s.account.total_us
    times = f" · {base / us:.2f}×" if us and s.policy != BASELINE else ""
    return f"{time_text(us)}{times}"


def _row(
    s: PolicyWall, found: Rammed, x: float, y: float, row: float, scale: float, *, narrow: bool
) -> Iterator[str]:
    """One policy: its name and what it launches, its bar, and how long its wall is."""
    style, a = "i w", s.account
    waits = f", {found.barriers(s)} waits" if a.units <= MOST_COUNTED else ""
    said = f"{count_text(a.launches, 'launch')}{waits}".replace("launchs", "launches")
    body = label(0, y + min(16.0, row / 2 + 4), _name(s), style)
    bar_y = y + (22 if narrow else 4)
    high = min(BAR, row - (26 if narrow else 14 if row >= 44 else 6))
    if not narrow and row >= 44:
        body += label(0, y + 34, said)
    if not narrow and row >= 64 and s is found.chosen:
        body += label(0, y + 52, "current", "w")
    at = x
    for part, us in parts_us(s):
        w = us * scale
        if w <= 0:
            continue
        fill = "var(--ink2)" if part == "busy" else f"url(#p-g-{part})"
        name = NAMES.get(part, part)
        told = f"{_name(s)}: {name} {time_text(us)}, {us / (a.total_us or 1):.0%}"
        ground = rect(at, bar_y, w, high, "var(--pane)")
        mark = ground + rect(at, bar_y, w, high, fill, 'stroke="var(--ink2)"', title=told)
        words = f"busy {a.busy:.0%}"
        if part == "busy" and w > wide(words) + 12 and high >= 18:
            mark += label(at + 6, bar_y + high / 2 + 5, words, "inv w")
        body += lit_by(mark, "busy" if part == "busy" else f"idle idle:{part}")
        at += w
    body += label(at + 8, bar_y + high / 2 + 5, _end(s, found), style)
    on, number = s is found.chosen, found.sides.index(s)
    told = f"{_name(s)}: {_end(s, found)}{', current' * on}"
    taken = choice(body, number, told, on=on, of="policy", value=s.policy)
    yield lit_by(taken, f"policy:{s.policy}")


def _legend(causes: Sequence[str], height: int, width: int) -> Iterator[list[str]]:
    """What the parts of the bars are, in as many lines as they need, the last at the bottom."""
    lines: list[list[tuple[str, float]]] = [[]]
    x = 0.0
    for cause in causes:
        w = 32 + wide(NAMES.get(cause, cause))
        if x + w > width and lines[-1]:
            lines.append([])
            x = 0.0
        lines[-1].append((cause, x))
        x += w + 18
    for n, line in enumerate(lines):
        y = height - 9 - 24.0 * (len(lines) - 1 - n)
        yield [_swatch(cause, x, y) for cause, x in line]


def _swatch(cause: str, x: float, y: float) -> str:
    fill = "var(--ink2)" if cause == "busy" else f"url(#p-g-{cause})"
    mark = rect(x + 1, y - 11, 22, 13, fill, 'stroke="var(--ink2)"')
    words = label(x + 30, y, NAMES.get(cause, cause))
    return lit_by(mark + words, "busy" if cause == "busy" else f"idle idle:{cause}")


PICTURE = Picture(
    name="policies",
    title="Policies",
    words="Every policy's wall: how long it is, what fills it, and what it costs to begin.",
    stage=Stage.RAMMED,
    family=WALLS_APART,
    draw=of_walls(figure, table, rammed_apart),
)
