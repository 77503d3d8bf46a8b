"""What questions that change a session, or begin work in it, have of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from widgets.model.compiled import Arrays
from widgets.model.on_show import OnShow
from widgets.session.edits import Edited, Trials
from widgets.session.moves import Hands
from widgets.session.shown import Shown
from widgets.session.timing.bench import Bench
from widgets.session.timing.clocks import Clocks
from widgets.session.timing.comparing import Comparing
from widgets.session.timing.crossings import Crossings
from widgets.session.timing.fitting import Fitting
from widgets.session.timing.profiling import Profiling
from widgets.session.verdict import Step


class Changing(OnShow, Protocol):
    """A session under a reader's hands."""

    edited: Edited

    @property
    def bench(self) -> Bench: ...
    @property
    def clocks(self) -> Clocks: ...
    @property
    def comparing(self) -> Comparing: ...
    @property
    def crossings(self) -> Crossings: ...
    @property
    def fitting(self) -> Fitting: ...
    @property
    def hands(self) -> Hands: ...
    @property
    def inputs(self) -> Arrays: ...
    @property
    def profiling(self) -> Profiling: ...
    @property
    def shown(self) -> Shown: ...
    @property
    def trials(self) -> Trials: ...
    def run_once(self) -> None:
        """Measure the wall of what is on show."""

    def show_next(self, step: Step, *, measured: bool = True) -> Mapping[str, Any]:
        """Go a step further, and say so; it is to be measured where it was not."""

    def with_code(self) -> None:
        """Generate the code of what is on show, where it was only planned."""
