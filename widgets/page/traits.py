"""An explorer's selection, view, knobs and times as traits.

`ipywidgets.link`, `jslink`, `interact` and `observe` work with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets

from explorer.errors import BadOption, IronworksError
from widgets.model.knob import shown_values, trait_name
from widgets.model.pipeline_knobs import HIDDEN
from widgets.rooms import gallery
from widgets.session.session import Session

WALL = "rammer"  # the view that an explorer opens with
TIMES = ("time_us", "predicted_us")  # read-only for pages


class Checked(traitlets.TraitType[Any, Any]):
    """A trait whose values are checked before they are set.

    `check(explorer, value)` returns the value, or raises an error with a sentence for the user.
    """

    def __init__(self, check: Callable[[Any, Any], Any], default: Any = "") -> None:
        """Create a synchronised trait with this check."""
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
        operator_names = ", ".join(operators)
        raise BadOption(
            f"there is no operator {name!r:.40}", where="selected", expected=operator_names
        )
    return str(name or "")


def _picture(explorer: SharedTraits, name: Any) -> str:
    if name not in gallery.choices():
        view_names = ", ".join(gallery.choices())
        raise BadOption(f"there is no view {name!r:.40}", where="view", expected=view_names)
    return str(name)


def _value_of(knob: str) -> Callable[[SharedTraits, Any], Any]:
    """Return the check of a knob's trait; a knob that is gone has None."""

    def check(explorer: SharedTraits, value: Any) -> Any:
        if value is None and knob not in [k.name for k in explorer.session.knobs()]:
            return None
        current_knob, index = explorer.session.knob_at(knob, value)
        return shown_values(current_knob)[index]

    return check


class SharedTraits(anywidget.AnyWidget):
    """Traits of an explorer that other widgets can link.

    `selected` is an operator's name, "" for none; `view` a picture's. Both follow the page, and the
    page follows them. Each knob is a trait of its name: `threads`, `policy`, and a symbol's size by
    the symbol, such as `seq`; "size seq" is `size_seq` where `seq` is taken. `predicted_us` is the
    planned time of the setting on show. `time_us` is the median of its measured runs, None before
    they are measured. Both are read-only, in microseconds.
    """

    session: Session
    state: dict[str, Any]
    selected = Checked(_operator)
    view = Checked(_picture, WALL)
    time_us = traitlets.Float(None, allow_none=True, read_only=True).tag(sync=True)
    predicted_us = traitlets.Float(None, allow_none=True, read_only=True).tag(sync=True)

    def __init__(self, session: Session, **parts: Any) -> None:
        """Create the traits of a session."""
        self.session = session
        self._traits_of: dict[str, str] = {}  # by knob
        self._sync_traits()
        saved = session.saved
        selected = saved.op if saved.op in session.house.order else ""
        super().__init__(selected=selected, view=saved.room or WALL, **parts)
        self.observe(self._selected, "selected")
        self.observe(self._entered, "view")

    def measure(self) -> float | None:
        """Time the setting on show here, and return the median of a run in microseconds."""
        self.session.bench.jobs.end()
        self.session.answer("measure", {})
        self._send_changes()
        return self.session.time_us

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """Apply what a page has set; refused values are sent back with the reason."""
        mine = {name: value for name, value in sync_data.items() if name not in TIMES}
        try:
            super().set_state(mine)
        except IronworksError:
            self.send_state([name for name in mine if name in self.keys])

    def _sync_traits(self) -> None:
        """Set the traits to the session's values."""
        values = {k.name: shown_values(k)[k.now] for k in self.session.knobs() if k.kind != HIDDEN}
        self._add_knobs({name: v for name, v in values.items() if name not in self._traits_of})
        trait_values = {trait: values.get(knob) for knob, trait in self._traits_of.items()}
        trait_values["predicted_us"] = self.session.shown.planned_us or None
        trait_values["time_us"] = self.session.time_us
        with self.hold_trait_notifications():
            for trait, value in trait_values.items():
                if getattr(self, trait) != value:
                    self.set_trait(trait, value)

    def _add_knobs(self, values: Mapping[str, Any]) -> None:
        """Add a trait for each knob."""
        taken = set(dir(self)) if values else set[str]()
        added = dict[str, Checked]()
        for knob, value in values.items():
            trait = self._traits_of[knob] = trait_name(knob, taken | added.keys())
            added[trait] = Checked(_value_of(knob), value)
        if added:
            self.add_traits(**added)
            self.observe(self._turned, list(added))

    def _turned(self, change: Mapping[str, Any]) -> None:
        """Plan with a knob at another value; the trait is reset if that fails."""
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
        self._send_changes()
        self.send(turned)

    def _selected(self, change: Mapping[str, Any]) -> None:
        name = change["new"]
        self.state = {**self.state, "op": name}
        self.session.answer("focus", {"op": self.session.house.order.get(name, -1)})
        self._send_changes()

    def _entered(self, change: Mapping[str, Any]) -> None:
        stage = gallery.find_picture(change["new"]).stage
        at = {} if stage is None else {"stage": stage.name}
        self.state = {**self.state, "room": change["new"], **at}

    def _send_changes(self) -> None:
        """Send the page what has changed."""
