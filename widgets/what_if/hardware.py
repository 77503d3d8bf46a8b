"""What if the hardware were another one: every figure of the device, and what a run would take with
half and with twice of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from explorer.compilation import Compilation
from explorer.ir.stage import Stage
from explorer.stepping.other_hardware import TIMES, Varied, varied_figures, vary_each
from widgets.draw.see import Mark, Sentence
from widgets.draw.table import Cell, Table, count_text, time_text
from widgets.draw.table_drawing import drawn_table
from widgets.model.compiled import Arrays
from widgets.model.controls import settings
from widgets.model.controls.settings import HARDWARE, Control
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.on_show import OnShow
from widgets.model.picture import Clock, Drawn, Family, Picture
from widgets.what_if.options import NOTHING_CHOSEN
from widgets.what_if.options import caption as of_controls
from widgets.what_if.options import table as of_settings

NAME = "hardware"
LEAST = 0.001  # a smaller change of the time is none
SIDE = dict(zip(TIMES, ("half", "twice")))
COLUMNS = tuple(
    f"{what}, {'half' if times < 1 else 'twice'} of it, predicted µs"
    for times in TIMES
    for what in ("same program", "compiled anew")
)


@dataclass(frozen=True, slots=True)
class VariedRows:
    """What a run is planned to take, and would with each figure at another value."""

    device: str
    us: float
    rows: tuple[Varied, ...]

    def of(self, name: str, times: float) -> Varied | None:
        """The row of a figure at so many times its value."""
        return next((r for r in self.rows if r.name == name and r.times == times), None)

    @property
    def names(self) -> tuple[str, ...]:
        """The figures, those that matter most first."""
        names = dict.fromkeys(r.name for r in self.rows)
        return tuple(sorted(names, key=self.effect, reverse=True))

    def effect(self, name: str) -> float:
        """The largest change of the time that one of a figure's rows has, as a share."""
        mine = [r for r in self.rows if r.name == name]
        times = [us for r in mine for us in (r.same_us, r.anew_us) if us is not None]
        return max((abs(us / self.us - 1) for us in times), default=0.0) if self.us else 0.0


def table(controls: tuple[Control, ...], found: VariedRows | None) -> Table:
    """One row a figure: what it is, and what a run would take with half and twice of it."""
    plain = of_settings(controls, of_controls(controls, "figure"))
    if found is None:
        return plain
    rows = tuple(
        (*row, *_times(found, c.name.removeprefix(f"{HARDWARE}.")))
        for row, c in zip(plain.rows, controls, strict=True)
    )
    return Table((*plain.columns, *COLUMNS, "why not"), rows, plain.ops, caption(found), see(found))


def _times(found: VariedRows, name: str) -> tuple[Cell, ...]:
    rows = [found.of(name, times) for times in TIMES]
    cells = [us for r in rows for us in ((r.same_us, r.anew_us) if r else (None, None))]
    why = "; ".join(r.refused for r in rows if r and r.refused)
    return (*("" if us is None else round(us, 2) for us in cells), why)


def caption(found: VariedRows) -> str:
    """What a run is planned to take, and which figure matters most."""
    said = f"per run on {found.device}: predicted {time_text(found.us)}"
    names = [n for n in found.names if found.effect(n) > LEAST]
    if not names:
        return f"{said}; no figure alone changes that"
    most = names[0]
    mine = [r for r in found.rows if r.name == most and r.same_us is not None]
    times = [f"{r.times:g} times: {time_text(r.same_us)}" for r in mine if r.same_us is not None]
    return f"{said}; {most} matters most, {', '.join(times)} for the same program"


def see(found: VariedRows) -> tuple[Sentence, ...]:
    """The sentences: the figure that matters most with half and twice of it, what compiling anew
    changes of that, and how many figures matter at all.
    """
    names = [n for n in found.names if found.effect(n) > LEAST]
    if not names:
        return ()
    name = names[0]
    sides = [(SIDE[t], r) for t in TIMES if (r := found.of(name, t)) is not None]
    times: Sentence = ()
    for side, r in sides:
        us = r.same_us if r.same_us is not None else r.anew_us
        if us is not None:
            key = "same" if r.same_us is not None else "anew"
            times += (f", {side} of it ", Mark(time_text(us), f"{key} figure:0 {side}"))
    told: list[Sentence] = [
        (Mark(name, "figure:0"), f" matters most: a run takes {time_text(found.us)}", *times, ".")
    ]
    gains = [(r.anew_us / r.same_us, s, r.anew_us) for s, r in sides if r.same_us and r.anew_us]
    if gains and min(gains)[0] < 1 - LEAST:
        _, side, us = min(gains)
        anew = Mark(time_text(us), f"anew figure:0 {side}")
        told.append((f"Compiled anew for {side} of it, a run takes ", anew, "."))
    count = count_text(len(found.names), "figure")
    told.append((Mark(f"{len(names)} of {count}", "same|anew"), " change the predicted time."))
    return tuple(told)


def _draw(s: OnShow, op: str) -> Drawn:
    controls = settings.figures(s.now.compiled, s.pinned.compiled)
    found = s.clocked(NAME, "")
    words = table(controls, found)
    return (found, None, words) if found is not None else ((), drawn_table(words), words)


def _varied(
    now: Setting, house: House, about: str, inputs: Arrays
) -> Iterator[tuple[int, int, Any]]:
    """Each figure in turn, halved and doubled."""
    c: Any = now.compiled  # `about` said that it is one of ours
    sizes, rows = dict(now.sizes), tuple[Varied, ...]()
    us, count = c.planned_wall(sizes).total_us, len(TIMES) * len(varied_figures(c))
    for row in vary_each(c, sizes):
        rows = (*rows, row)
        yield len(rows), count, VariedRows(c.device.name, us, rows)


def _about(s: OnShow, op: str) -> str | None:
    c = s.now.compiled
    return "" if isinstance(c, Compilation) and c.program.stage >= Stage.PLANNED else None


def _controls(s: OnShow, op: str) -> dict[str, Any]:
    """A machine that is here can be measured."""
    c = s.now.compiled
    if not isinstance(c, Compilation) or not c.device.is_this_cpu:
        return dict(NOTHING_CHOSEN)
    why = "Measure its peak, its memory and what its kernels cost: some seconds"
    return {**NOTHING_CHOSEN, "actions": [["fit", "Fit to this machine", {}, why]]}


PICTURE = Picture(
    name=NAME,
    title="Hardware",
    words="Every figure of the device, to change; and which of them a run depends on: predictions.",
    draw=_draw,
    family=Family("whatif", _controls),
    live="settings",
    clock=Clock("Halve and double each", _about, _varied, caption, code="none"),
    every="What if",
)
