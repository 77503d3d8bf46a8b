"""What each figure of the hardware is worth: the plan with half of it and with twice of it, of the
same program, and of one compiled anew for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from explorer.compilation import Compilation
from explorer.devices.hardware import COSTS, LIMIT, Figure, Options, figures
from explorer.errors import Cancelled, IronworksError
from explorer.ir.shapes.dims import Sizes
from explorer.ir.stage import Stage

TIMES = (0.5, 2.0)


@dataclass(frozen=True, slots=True)
class Varied:
    """A figure at another value: what a run is planned to take of the `same` program, and of one
    compiled `anew`, in microseconds; None where there is none, and why.
    """

    name: str
    times: float
    value: float
    same_us: float | None = None
    anew_us: float | None = None
    refused: str = ""


def varied_figures(c: Compilation) -> tuple[Figure, ...]:
    """Those that are varied: how many units there are, how large and how fast they and memory are,
    and what the runtime adds.
    """
    return tuple(f for f in figures(c.device) if f.group not in (COSTS, LIMIT) and f.value)


def vary_each(c: Compilation, sizes: Sizes | None = None) -> Iterator[Varied]:
    """Each figure alone, halved and doubled. BadOption where nothing is planned yet."""
    sizes = dict(sizes or c.hint)
    c.planned_wall(sizes)
    for figure in varied_figures(c):
        for times in TIMES:
            value = figure.value * times
            value = float(max(1, int(value))) if figure.number.whole else value
            if value != figure.value:
                yield _varied(c, figure.name, times, value, sizes)


def _varied(c: Compilation, name: str, times: float, value: float, sizes: Sizes) -> Varied:
    others = {**dict(c.options.hardware.changed), name: value}
    found = Varied(name, times, value)
    try:
        hardware = Options(tuple(others.items()))
        same = c.same_program(hardware).planned_wall(sizes).total_us
        found = Varied(name, times, value, same)
        anew = c.with_options(until=Stage.PLANNED, hardware=hardware)
        return Varied(name, times, value, same, anew.planned_wall(sizes).total_us)
    except Cancelled:
        raise
    except IronworksError as problem:
        return Varied(name, times, value, found.same_us, refused=problem.sentence)
