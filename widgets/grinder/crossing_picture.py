"""The words of a loop's crossing point, and the picture."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.ir.stage import Stage
from explorer.runtime.control.costs import Supposed
from explorer.runtime.control.way_times import Timed
from widgets.draw.see import Mark, Sentence
from widgets.draw.svg import Svg, label, wrapped
from widgets.draw.table import Cell, Table, count_text, time_text
from widgets.grinder.crossing import HOST, CrossingRows, WayRow, data, sentence
from widgets.grinder.ratio_chart import ratios
from widgets.grinder.view import LOOPS, crossing, supposed_of
from widgets.model.on_show import HEIGHT, WIDTH, OnShow
from widgets.model.picture import Drawn, Picture

PX = 13


def table(rows: CrossingRows) -> Table:
    """One row a count of trips: what each way should take, the fastest, and what was timed."""
    labels = [w.label for w in rows.ways]
    columns = ("iterations", *(f"{name} µs" for name in labels), "least")
    found: list[tuple[Cell, ...]] = [
        (n, *(w.times_us[i] for w in rows.ways), labels[rows.least[i]])
        for i, n in enumerate(rows.counts)
    ]
    timed = sorted({t.trips for t in rows.timed})
    for n in timed:
        us = {t.label: t.median_us for t in rows.timed if t.trips == n}
        best = min(us, key=lambda name: us[name])
        found.append((n, *(us.get(name, "") for name in labels), f"{best}, measured"))
    return Table(columns, tuple(found), tuple(rows.ops for _ in found), caption(rows), see(rows))


def caption(rows: CrossingRows) -> str:
    """Where the ways cross, whose times these are, and what stands between kernels."""
    return "; ".join((sentence(rows), _as_it_is(rows), *_known(rows)))


def _known(rows: CrossingRows) -> Iterator[str]:
    """What the times were predicted from, and what was timed, a line each."""
    k = rows.constants
    source = "as supposed here" if rows.supposed else k.source
    yield f"a launch {k.launch_us:g} µs, a barrier of all cores {k.barrier_us:g} µs ({source})"
    copy_us, look_us = k.python.copy_us, k.python.look_us
    yield f"a copy from Python {copy_us:g} µs, a scalar readback {look_us:g} µs"
    if rows.timed:
        counts = sorted({t.trips for t in rows.timed})
        yield f"timed on this machine with {', '.join(f'{n:,}' for n in counts)} iterations"


def figure(rows: CrossingRows, size: tuple[int, int] = (WIDTH, HEIGHT)) -> Svg:
    """The time of each schedule over that on the host, by iterations; below, what each spends."""
    wide, high = size
    told = [(w.label + ", as compiled" * w.chosen, _spent(w)) for w in rows.ways]
    told += [(name, f"not possible, {why}") for name, why in rows.refused]
    body = "".join(ratios(rows, told, [_as_it_is(rows), *_known(rows)], wide, high))
    return Svg(wide, high, body, f"Crossing point. {caption(rows)}", px=PX)


def _as_it_is(rows: CrossingRows) -> str:
    way = next((w.label for w in rows.ways if w.chosen), "")
    if rows.trips is None:
        trips = "only a run tells how many iterations it makes"
    else:
        named = f" ({rows.symbol})" if rows.symbol else ""
        trips = f"it makes {count_text(rows.trips, 'iteration')}{named}"
    taken = f"compiled to run {way}, " if way else ""
    return f"predicted for {rows.device}; {taken}{trips}"


def _spent(way: WayRow) -> str:
    before = f"{_us(way.before_us)} before the first iteration, " if way.before_us else ""
    parts = ", ".join(f"{name} {_us(us)}" for name, us in way.terms)
    return f"{before}{_us(way.trip_us)} an iteration: {parts}"


def _us(us: float) -> str:
    return time_text(us) if us >= 10 else f"{us:.2f} µs"


def timed_words(t: Timed) -> str:
    """What the clock said of a way."""
    return (
        f"{t.label}, {count_text(t.trips, 'iteration')}: measured {_us(t.median_us)}, 99% interval "
        f"{_us(t.low_us)} to {_us(t.high_us)}, n = {t.n}"
    )


def see(rows: CrossingRows) -> tuple[Sentence, ...]:
    """Where the schedules cross, what the loop does, and how much the best of them saves."""
    head, _, rest = sentence(rows).partition(": ")
    found: list[Sentence] = [(f"{head}: ", Mark(rest, "cross"), ".")]
    if rows.trips is None:
        found.append(("Only a run tells how many iterations it makes.",))
        return tuple(found)
    named = f" ({rows.symbol})" if rows.symbol else ""
    found.append(
        ("It makes ", Mark(count_text(rows.trips, "iteration"), "now"), f"{named} as compiled.")
    )
    host = next((w for w in rows.ways if w.label == HOST), None)
    best = rows.ways[rows.least[rows.first]]
    if host is not None and best is not host and best.times_us[rows.first] > 0:
        ratio = host.times_us[rows.first] / best.times_us[rows.first]
        way = f"way:{rows.ways.index(best)}"
        told = f"On the host that takes {ratio:.3g} times as long as "
        found.append((told, Mark(best.label, way), "."))
    return tuple(found)


def _draw(s: OnShow, op: str) -> Drawn:
    found = crossing(s, op)
    if found is None:
        return _none(s)
    rows = data(found, s.now.compiled.device.name, supposed_of(s) != Supposed())
    return rows, figure(rows, s.view.size), table(rows)


def _none(s: OnShow) -> Drawn:
    """A program without a loop."""
    chapter = "notebooks/09_control_flow.ipynb"
    words = f"No loop whose sizes are known before a run. Open {chapter} for some."
    wide, high = s.view.size
    lines = wrapped(words, wide - 16, PX)
    marks = [label(8, 24 + 20 * n, line, "i") for n, line in enumerate(lines)]
    drawing = Svg(wide, high, "".join(marks), words, px=PX)
    return (), drawing, Table(("loop",), (("none",),), ((),), words)


PICTURE = Picture(
    name="crossing",
    title="Crossing point",
    words="What a loop takes by its iterations, over what it takes on the host: in the program, "
    "on one core, unrolled.",
    stage=Stage.TASKED,
    family=LOOPS,
    draw=_draw,
)
