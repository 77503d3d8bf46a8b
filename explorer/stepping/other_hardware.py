"""Sensitivity to hardware: the plan with half and twice of each figure of the device.

Each is planned for the same program, and for one that is compiled for the changed device.
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
    """A figure at another value, with the planned times of a run in microseconds.

    `same_us` is that of the same program, `anew_us` that of one compiled for the changed device;
    None with the reason in `refused`.
    """

    name: str
    times: float
    value: float
    same_us: float | None = None
    anew_us: float | None = None
    refused: str = ""


def varied_figures(c: Compilation) -> tuple[Figure, ...]:
    """Return the figures that are varied: units, sizes and speeds of memory, and runtime costs."""
    return tuple(f for f in figures(c.device) if f.group not in (COSTS, LIMIT) and f.value)


def vary_each(c: Compilation, sizes: Sizes | None = None) -> Iterator[Varied]:
    """Yield each figure alone, halved and doubled; raise BadOption if nothing is planned yet."""
    sizes = dict(sizes or c.hint)
    c.planned_wall(sizes)
    for figure in varied_figures(c):
        for times in TIMES:
            value = figure.value * times
            value = float(max(1, int(value))) if figure.number.is_integer else value
            if value != figure.value:
                yield _varied(c, figure.name, times, value, sizes)


def _varied(c: Compilation, name: str, times: float, value: float, sizes: Sizes) -> Varied:
    """Plan for one changed figure."""
    others = {**dict(c.options.hardware.changed), name: value}
    varied = Varied(name, times, value)
    try:
        hardware = Options(tuple(others.items()))
        same = c.same_program(hardware).planned_wall(sizes).total_us
        varied = Varied(name, times, value, same)
        anew = c.with_options(until=Stage.PLANNED, hardware=hardware)
        return Varied(name, times, value, same, anew.planned_wall(sizes).total_us)
    except Cancelled:
        raise
    except IronworksError as problem:
        return Varied(name, times, value, varied.same_us, refused=problem.sentence)
