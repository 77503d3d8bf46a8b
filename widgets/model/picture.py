"""The record of a picture, which its own file defines, and what a picture is drawn from.

That is the setting on show, the point of view, the walls, and values moved to other memory levels.
A new picture is a line of `widgets.rooms.gallery.PICTURES`, the list that everything reads which
shows pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias

from explorer.ir.decisions.tiling import Tiling
from explorer.ir.program import Program
from explorer.ir.stage import Stage
from explorer.measure.compare import Measurement
from explorer.measure.walls import WallComparison
from explorer.runtime.planning.schedule_times import TimedSchedule
from widgets.draw.svg import Svg, label
from widgets.draw.table import Table
from widgets.model.brick_wall import WallRows
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting

Move = tuple[str, str]  # a value, and the level it goes to


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of the groups before or after a move.

    The number of kernels, bytes to and from memory, bytes that the largest task holds in `level`,
    the capacity there, and modelled microseconds.
    """

    kernels: int
    traffic: int
    level: str
    footprint: int
    capacity: int | None
    predicted_us: float


@dataclass(frozen=True)
class Outcome:
    """The effect of moves on the groups that they touch.

    For an illegal move: the condition that fails (`refused`) and the smallest change that would
    `flip` it.
    """

    before: Totals | None = None
    after: Totals | None = None
    program: Program | None = None  # after Welder
    refused: str = ""
    flip: str = ""


@dataclass(frozen=True)
class ManualMoves:
    """The moves so far on a device, each with its effect after the moves of other values before it.

    `others` holds the moves on other devices.
    """

    device: str = ""
    steps: tuple[tuple[Move, Outcome], ...] = ()
    others: tuple[ManualMoves, ...] = ()

    def on(self, device: str) -> ManualMoves:
        """Return the moves on a device; those on this one are stored among its others."""
        if device == self.device:
            return self
        stored = (*self.others, replace(self, others=()))
        selected = next((h for h in stored if h.device == device), ManualMoves(device))
        return replace(selected, others=tuple(h for h in stored if h.steps and h.device != device))

    @property
    def moves(self) -> tuple[Move, ...]:
        """The last place of each value that was moved."""
        return tuple(dict(move for move, _ in self.steps).items())

    @property
    def outcome(self) -> Outcome | None:
        """The effect of all moves together."""
        return self.steps[-1][1] if self.steps else None

    def moved(self, move: Move, outcome: Outcome) -> ManualMoves:
        """Return the moves with one more."""
        return replace(self, steps=(*self.steps, (move, outcome)))

    def undone(self, *, everything: bool) -> ManualMoves:
        """Return the moves without the last, or without any."""
        return replace(self, steps=() if everything else self.steps[:-1])


WIDTH, HEIGHT = 1012, 600  # of a picture in an explorer of 1,250 by 820 pixels

Times: TypeAlias = Mapping[Tiling, Measurement]


@dataclass(frozen=True, slots=True)
class View:
    """The point of view of a picture.

    The device, "" for the one that was compiled for, and the tile, -1 for the one in use. Rammer's
    pictures: policy, number of units, bricks per slice and rKernels, "" and 0 for those in use.
    Grinder's: the loop, and the supposed times of a launch and a barrier. The picture of sizes: the
    symbol. Those of steps: the step, -1 for the largest, and what its program is compared with. The
    flow of code: the expanded loops. The fused pipeline: the memory level up to which it is fused.
    Language models: the bits of a weight.
    `width` and `height` are the pixels that the page has for the drawing, 0 if unknown.
    """

    device: str = ""
    rank: int = -1
    policy: str = ""
    units: int = 0
    bricks: int = 0
    kernels: str = ""
    loop: str = ""
    launch: str = ""
    barrier: str = ""
    symbol: str = ""
    step: int = -1
    against: str = ""
    opened: str = ""
    cut: str = ""
    bits: str = ""
    width: int = 0
    height: int = 0

    @property
    def size(self) -> tuple[int, int]:
        """The pixels of a drawing: those that the page has, else those of a page 1,250 wide."""
        return self.width or WIDTH, self.height or HEIGHT


@dataclass(frozen=True, slots=True)
class Walls:
    """The walls on show; `measured` and `compared` are None before the first run here.

    `recorded` is the wall of a recorded run, `recorded_compared` its comparison with the plan.
    """

    planned: WallRows | None
    measured: WallRows | None
    compared: WallComparison | None = None
    recorded: WallRows | None = None
    recorded_compared: WallComparison | None = None

    @property
    def ran(self) -> tuple[WallRows | None, WallComparison | None]:
        """The wall under the plan: the one measured here, else the recorded one.

        Descriptions of it begin with its own name: `title`.
        """
        if self.measured is not None:
            return self.measured, self.compared
        return self.recorded, self.recorded_compared


class OnShow(Protocol):
    """A compilation at a binding of its symbols, as the pictures read it.

    With A, which it is compared with, its walls, its memory plan, and whether it runs here. For
    Welder, Roller and Rammer also the device and tile, the manual moves, the timed tiles and
    schedules of loops, and the other measurements of pictures.
    """

    @property
    def now(self) -> Setting:
        """The setting on show."""

    @property
    def pinned(self) -> Setting:
        """The baseline, A."""

    @property
    def house(self) -> House:
        """The parts of the explorer."""

    @property
    def walls(self) -> Walls:
        """The walls on show."""

    @property
    def plan(self) -> Any:
        """The memory plan."""

    @property
    def view(self) -> View:
        """The point of view."""

    @property
    def manual_moves(self) -> ManualMoves:
        """The connections that were moved by hand."""

    @property
    def runs(self) -> bool:
        """True if the setting runs on this machine."""

    def times(self, binding: str) -> Times:
        """Return the timed tiles of a kernel."""

    def timed(self, loop: str) -> tuple[TimedSchedule, ...]:
        """Return the timed schedules of a loop."""

    def clocked(self, picture: str, about: str) -> Any:
        """Return the measurement that belongs to a picture."""


# The rows, the drawing and the words of a picture; a picture that is all chart has no drawing.
Drawn = tuple[Any, Svg | None, Table]
Live = Literal[
    "", "wall", "tile", "levels", "code", "sides", "matches", "switches", "settings"
]  # fmt: skip
Draw = Callable[[OnShow, str], Drawn]
Chart = Callable[[Any, str, str], Any]  # rows, title and theme to a plotly figure


@dataclass(frozen=True, slots=True)
class Family:
    """Pictures that share their controls: of tiles, groups, walls, loops or steps.

    `controls(on_show, op)` returns the choices and those on show; its "play" names the one of its
    "more", or "rank", that a scrubber under the picture steps through. `about(on_show, op)` returns
    the source operators of what is shown. `heaviest(on_show, count)` returns the most expensive
    calls, whose pictures a saved page holds, on this machine and for `sheets`; None if one picture
    is about the entire program.
    """

    name: Literal[
        "tiles",
        "groups",
        "walls",
        "loops",
        "trips",
        "schedules",
        "sizes",
        "steps",
        "board",
        "whatif",
        "bits",
    ]
    controls: Callable[[OnShow, str], Mapping[str, Any]]
    about: Callable[[OnShow, str], tuple[str, ...]] = lambda s, op: ()
    heaviest: Callable[[OnShow, int], tuple[str, ...]] | None = None
    sheets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Clock:
    """A measurement that a page with a kernel can make for a picture, by a button called `title`.

    `about(on_show, op)` names what is measured, None if nothing can be. `run(now, house, about,
    inputs)` measures it: it yields the steps done, their number, and the result so far, or None.
    Results stay if the others are cancelled. `describe` puts the result into words, "" without one.
    `under` is the setting without what does not affect the result. `code`: "needed" times code;
    "where it runs" times code that runs here and else evaluates the plan; "none" always evaluates
    the plan.
    """

    title: str
    about: Callable[[OnShow, str], str | None]
    run: Callable[[Setting, House, str, Arrays], Iterator[tuple[int, int, Any]]]
    describe: Callable[[Any], str]
    under: Callable[[Setting, str], Setting] = lambda now, about: now
    code: Literal["needed", "where it runs", "none"] = "needed"


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: `name` stands in links, `title` in the list of its stage; `words` describe it.

    `draw(on_show, op)` makes it, about a source operator if one is named. It is listed under
    `stage`, under every stage, or under What if, as `every` says. Without these it is shown only on
    its own. `family` determines its controls, None if it has none. `about` is its subject in the
    selection: one of its operators, the kernel that computes it, or "" for the entire program.

    `live` is what a page with a kernel adds:

    - "wall": the wall that is drawn in the page in its place;
    - "tile": the form of a tile to try;
    - "levels": the form to move values to memory levels;
    - "code": the code of a kernel with linked lines;
    - "sides": two columns that scroll together;
    - "matches": matches to step through;
    - "switches": the switches of steps;
    - "settings": the settings of options and hardware.

    `clock` is its measurement. `short` is the name of one of the four small pictures in the bar, ""
    for all others. `of_run`: it shows what a run did, so a run is made before it is shown
    `measured`. `chart(rows, title, theme)` is the plotly figure of its rows, if it has one.
    """

    name: str
    title: str
    words: str
    draw: Draw
    stage: Stage | None = None
    family: Family | None = None
    about: Literal["", "operator", "kernel"] = ""
    live: Live = ""
    of_run: bool = False
    clock: Clock | None = None
    every: Literal["", "Step", "What if"] = ""
    short: str = ""
    chart: Chart | None = None

    def page_fields(self) -> dict[str, str | bool]:
        """Return the fields that a page gets."""
        return {
            "name": self.name,
            "title": self.title,
            "words": self.words,
            "stage": self.stage.name if self.stage is not None else "",
            "family": self.family.name if self.family else "",
            "live": self.live,
            "every": self.every,
            "timed": self.clock is not None,
            "short": self.short,
        }


def controls(s: OnShow, *more: Sequence[Any]) -> dict[str, Any]:
    """Return the controls of a picture of the compiled device, without tiles.

    Each of `more` is a control's name, title, values, and the value on show.
    """
    device = s.now.compiled.device.name
    plain = {"devices": [device], "device": device, "tiles": [], "rank": -1, "note": ""}
    return {**plain, "more": [list(control) for control in more]}


def placeholder(reason: str) -> Drawn:
    """Return a placeholder for a picture that has nothing to show."""
    words = reason.removesuffix(".")
    return (), Svg(780, 40, label(12, 24, words, "i"), words), Table((), (), (), words)
