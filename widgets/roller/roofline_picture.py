"""Text of the roofline."""

from __future__ import annotations

from explorer.ir.stage import Stage
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import Table, count_text, speed_text
from widgets.model.brick_wall import units_text
from widgets.model.picture import Picture
from widgets.roller.roofline import COMPUTE, RooflineRows, data
from widgets.roller.view import TILES, of_tile


def table(rows: RooflineRows) -> Table:
    """Return one row per tile."""
    columns = (
        "rank", "tile", "bound by", "operations a byte", "bound GFLOP/s", "predicted GFLOP/s",
        "measured GFLOP/s", "predicted µs", "measured µs", "n", "predicted over measured",
    )  # fmt: skip
    cells = tuple(
        (
            n + 1,
            p.tile,
            rows.binds(p),
            p.intensity,
            p.bound,
            p.modelled,
            p.measured or "",
            p.modelled_us,
            p.measured_us or "",
            p.n or "",
            p.error or "",
        )
        for n, p in enumerate(rows.points)
    )
    return Table(columns, cells, tuple(rows.ops for _ in cells), caption(rows), see(rows))


def see(rows: RooflineRows) -> tuple[Sentence, ...]:
    """Return the key sentences: the bound of the current tile, its speed, and the model's error."""
    p = next(iter(rows.points[rows.rank : rows.rank + 1]), None)
    if p is None:
        return ()
    units, peak = rows.all_units
    speed = {r.level: r.gb_per_s for r in rows.roofs if r.units == units and r.gb_per_s > 0}
    sentences, bound = list[Sentence](), rows.binds(p)
    if p.level in speed:
        each = Mark(f"{p.intensity:.3g} operations a byte", "current")
        ridge = Mark(f"{peak / speed[p.level]:.3g}", f"roof:{rows.levels.index(p.level)} all")
        of = "" if bound != COMPUTE else f" from {p.level}"
        sentences.append(
            (f"{rows.kernel} is bound by {bound}: ", each, f"{of}, ridge at ", ridge, ".")
        )
    reached = Mark(speed_text(p.modelled), "current")
    clock: Sentence = ()
    if p.measured > 0:
        clock = (" (measured ", Mark(speed_text(p.measured), f"measured tile:{rows.rank}"), ")")
    most = f" of at most {speed_text(p.bound)}."
    if p.modelled > 1.01 * p.bound:
        roof = f", above the {speed_text(p.bound)} of {bound}"
        most = f"{roof}: nearer memory serves what is read again."
    sentences.append(("Predicted: ", reached, *clock, most))
    if rows.errors:
        timed = Mark(count_text(len(rows.errors), "tile"), "measured")
        sentences.append(
            ("Predicted over measured time of ", timed, f": {rows.error:.2f} on average.")
        )
    elif len(rows.points) > 1:
        speeds = [x.modelled for x in rows.points]
        tiles = Mark(count_text(len(speeds), "tile"), "predicted")
        ends = f" reach {speed_text(min(speeds))} to {speed_text(max(speeds))}."
        sentences.append(("All ", tiles, ends))
    return tuple(sentences)


def caption(rows: RooflineRows) -> str:
    """Describe the peak, and the error of the model where there are measurements."""
    peaks = ", ".join(f"{speed_text(p)} of {units_text(u, rows.device)}" for u, p in rows.peaks)
    text = (
        f"{rows.kernel} on {rows.device}: {peaks}; {count_text(len(rows.points), 'tile')} predicted"
    )
    if not rows.errors:
        return f"{text}, none measured" + (" yet" if rows.own else "")
    low, high = min(rows.errors), max(rows.errors)
    spread = f", {low:.2f} to {high:.2f}" if len(rows.errors) > 1 else ""
    return f"{text}, {len(rows.errors)} measured: predicted over measured {rows.error:.2f}{spread}"


PICTURE = Picture(
    name="roofline",
    title="Roofline",
    words="The speed that each tile can reach under the device's compute and bandwidth.",
    stage=Stage.ROLLED,
    family=TILES,
    about="kernel",
    draw=of_tile(data, None, table),
)
