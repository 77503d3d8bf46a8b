"""An explorer's selection, view, knobs and times as traits, which `ipywidgets.link`, `jslink`,
`interact` and `observe` take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets

from explorer.errors import BadOption, IronworksError
from widgets.model.knob_values import shown_values, trait_name
from widgets.model.step_knobs import HIDDEN
from widgets.rooms import gallery
from widgets.session.session import Session

WALL = "rammer"  # the view that an explorer opens with
TIMES = ("time_us", "predicted_us")  # that the explorer alone sets


class Checked(traitlets.TraitType[Any, Any]):
    """A trait whose values are checked before they are set: `check(explorer, value)` returns the
    value, or raises the sentence that says what is wrong with it.
    """

    def __init__(self, check: Callable[[Any, Any], Any], default: Any = "") -> None:
        super().__init__(default)
        self.check = check
        self.tag(sync=True)

    def validate(self, obj: Any, value: Any) -> Any:
        """Return the value that is set."""
        try:
            return self.check(obj, value)
        except IronworksError as problem:
            obj.send({"said": problem.sentence})
            raise


def _operator(explorer: SharedTraits, name: Any) -> str:
    operators = explorer.session.house.order
    if name and name not in operators:
        known = ", ".join(operators)
        raise BadOption(f"there is no operator {name!r:.40}", where="selected", expected=known)
    return str(name or "")


def _picture(explorer: SharedTraits, name: Any) -> str:
    if name not in gallery.choices():
        known = ", ".join(gallery.choices())
        raise BadOption(f"there is no view {name!r:.40}", where="view", expected=known)
    return str(name)


def _value_of(knob: str) -> Callable[[SharedTraits, Any], Any]:
    """The check of a knob's trait; a knob that is gone has None."""

    def check(explorer: SharedTraits, value: Any) -> Any:
        if value is None and knob not in [k.name for k in explorer.session.knobs()]:
            return None
        found, index = explorer.session.knob_at(knob, value)
        return shown_values(found)[index]

    return check


class SharedTraits(anywidget.AnyWidget):
    """`selected` is an operator's name, "" for none; `view` a picture's. Both follow the page, and
    the page follows them. Each knob is a trait of its name: `threads`, `policy`, and a symbol's
    size by the symbol, such as `seq`; "size seq" is `size_seq` where `seq` is taken.

    `predicted_us` is the plan's time of what is on show, and `time_us` the median of its measured
    runs, None before they are measured. Both are read-only, in microseconds.
    """

    session: Session
    state: dict[str, Any]
    selected = Checked(_operator)
    view = Checked(_picture, WALL)
    time_us = traitlets.Float(None, allow_none=True, read_only=True).tag(sync=True)
    predicted_us = traitlets.Float(None, allow_none=True, read_only=True).tag(sync=True)

    def __init__(self, session: Session, **parts: Any) -> None:
        self.session = session
        self._traits_of: dict[str, str] = {}  # by knob
        self._share()
        kept = session.kept
        selected = kept.op if kept.op in session.house.order else ""
        super().__init__(selected=selected, view=kept.room or WALL, **parts)
        self.observe(self._selected, "selected")
        self.observe(self._entered, "view")

    def measure(self) -> float | None:
        """Time what is on show here, and return the median of a run in microseconds."""
        self.session.bench.jobs.end()
        self.session.answer("measure", {})
        self._tell()
        return self.session.time_us

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """Take what a page set. What is refused is put back there, with the reason."""
        mine = {name: value for name, value in sync_data.items() if name not in TIMES}
        try:
            super().set_state(mine)
        except IronworksError:
            self.send_state([name for name in mine if name in self.keys])

    def _share(self) -> None:
        """Let the traits be what the session has."""
        values = {k.name: shown_values(k)[k.now] for k in self.session.knobs() if k.kind != HIDDEN}
        self._add_knobs({name: v for name, v in values.items() if name not in self._traits_of})
        found = {trait: values.get(knob) for knob, trait in self._traits_of.items()}
        found["predicted_us"] = self.session.shown.planned_us or None
        found["time_us"] = self.session.time_us
        with self.hold_trait_notifications():
            for trait, value in found.items():
                if getattr(self, trait) != value:
                    self.set_trait(trait, value)

    def _add_knobs(self, values: Mapping[str, Any]) -> None:
        """Add a trait for each knob, where there are any."""
        taken = set(dir(self)) if values else set[str]()
        added = dict[str, Checked]()
        for knob, value in values.items():
            trait = self._traits_of[knob] = trait_name(knob, taken | added.keys())
            added[trait] = Checked(_value_of(knob), value)
        if added:
            self.add_traits(**added)
            self.observe(self._turned, list(added))

    def _turned(self, change: Mapping[str, Any]) -> None:
        """Plan with a knob at another value. The trait stays as it was where that fails."""
        name, old, new = change["name"], change["old"], change["new"]
        knob = next(k for k, trait in self._traits_of.items() if trait == name)
        if new is None or new == self.session.value_of(knob):
            return
        self.send({"said": f"{name} {old} → {new}: planning"})
        try:
            turned = self.session.turn_to(knob, new)
        except IronworksError as problem:
            self.set_trait(name, old)
            self.send({"said": problem.sentence})
            raise
        self._tell()
        self.send(turned)

    def _selected(self, change: Mapping[str, Any]) -> None:
        name = change["new"]
        self.state = {**self.state, "op": name}
        self.session.answer("focus", {"op": self.session.house.order.get(name, -1)})
        self._tell()

    def _entered(self, change: Mapping[str, Any]) -> None:
        stage = gallery.named(change["new"]).stage
        at = {} if stage is None else {"stage": stage.name}
        self.state = {**self.state, "room": change["new"], **at}

    def _tell(self) -> None:
        """Send the page what has changed."""
