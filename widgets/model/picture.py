"""The record of a picture, which its own file defines.

A new picture is a line of `widgets.rooms.gallery.PICTURES`, the list that everything reads which
shows pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from explorer.ir.stage import Stage
from widgets.draw.svg import Svg, label
from widgets.draw.table import Table
from widgets.model.compiled import Arrays
from widgets.model.house import House
from widgets.model.knobs import Setting
from widgets.model.on_show import OnShow

# The rows, the drawing and the words of a picture; a picture that is all chart has no drawing.
Drawn = tuple[Any, Svg | None, Table]
Live = Literal[
    "", "wall", "tile", "levels", "code", "sides", "matches", "switches", "settings"
]  # fmt: skip
Draw = Callable[[OnShow, str], Drawn]


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
    `measured`.
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
    return (), Svg(780, 40, label(12, 24, words, "i"), words), Table(("tile",), (), (), words)
