"""What a picture is: one record, in the file that draws it. A new one is a line of
`widgets.rooms.gallery.PICTURES`; everything that shows pictures reads that list.
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
    """Pictures that share what their controls choose: of tiles, groups, walls, loops or steps.

    `controls(on_show, op)` is what may be chosen, with what is on show; its "play" names the one of
    its "more", or "rank", that a scrubber under the picture goes through. `about(on_show, op)` are
    the source operators of what is shown. `heaviest(on_show, count)` are the calls that matter
    most, whose pictures a saved page holds, on this machine and for `sheets`; None where one
    picture is about the whole program.
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
    """What a page with a kernel may find out for a picture, by a button called `title`.

    `about(on_show, op)` names what of the setting on show is measured, None where nothing can be;
    `run(now, house, about, inputs)` measures it: after each step how many are done, of how many,
    and what was found so far, which stays when the rest is cancelled, None where that is nothing.
    `told` says it in words, "" where there is nothing yet; `under` is the setting without what
    changes nothing of it. `code`: it times code, or does where there is some that runs here, else
    asks the plan, or it always asks the plan.
    """

    title: str
    about: Callable[[OnShow, str], str | None]
    run: Callable[[Setting, House, str, Arrays], Iterator[tuple[int, int, Any]]]
    told: Callable[[Any], str]
    under: Callable[[Setting, str], Setting] = lambda now, about: now
    code: Literal["needed", "where it runs", "none"] = "needed"


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: `name` stands in links, `title` in the list of its stage, and `words` say in a
    sentence what it shows. `draw(on_show, op)` makes it, about a source operator if one is named.

    It stands in the list of `stage`, or in that of every stage, or under What if, as `every` says;
    else it is shown on its own alone.
    `family` says what its controls choose, None where it has none; `about` what of the selection it
    is about: one of its operators, the kernel that computes it, or "" for the whole program.

    `live` is what a page with a kernel adds: the "wall" that is drawn in the page in its place, the
    form of a "tile" to try, that of "levels" to move values to, the "code" of a kernel whose lines
    are linked, "sides" that scroll together, "matches" that are gone through, the "switches" of
    steps, or the "settings" of options and hardware; `clock` is what it can measure.

    `short` is the name of one of the four small pictures in the bar, "" of all others. `of_run`: it
    shows what a run did, so that one is made before it is shown `measured`.
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

    def told(self) -> dict[str, str | bool]:
        """What a page is told of it."""
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
    """What may be chosen in a picture of the device that was compiled for, without tiles: of each
    of `more` its name, its title, its values and which of them is on show.
    """
    device = s.now.compiled.device.name
    plain = {"devices": [device], "device": device, "tiles": [], "rank": -1, "note": ""}
    return {**plain, "more": [list(one) for one in more]}


def nothing(said: str) -> Drawn:
    """A picture of what is not there."""
    words = said.removesuffix(".")
    return (), Svg(780, 40, label(12, 24, words, "i"), words), Table(("tile",), (), (), words)
