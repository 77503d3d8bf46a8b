"""Interface of a session to the questions that change it or begin work in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from widgets.model.compiled import Arrays
from widgets.model.on_show import OnShow
from widgets.session.edits import EditTrials, KernelEdits
from widgets.session.move_editor import MoveEditor
from widgets.session.shown import Shown
from widgets.session.timing.bench import Bench
from widgets.session.timing.clocks import Clocks
from widgets.session.timing.comparing import Comparing
from widgets.session.timing.crossings import Crossings
from widgets.session.timing.fitting import Fitting
from widgets.session.timing.profiling import Profiling
from widgets.session.verdict import HistoryEntry


class MutableSession(OnShow, Protocol):
    """A session that questions may change."""

    edited: KernelEdits

    @property
    def bench(self) -> Bench:
        """The tiles that were tried by hand."""

    @property
    def clocks(self) -> Clocks:
        """The measurements for pictures."""

    @property
    def comparing(self) -> Comparing:
        """The comparisons with the baseline."""

    @property
    def crossings(self) -> Crossings:
        """The timings of loops."""

    @property
    def fitting(self) -> Fitting:
        """The measurement of this machine."""

    @property
    def move_editor(self) -> MoveEditor:
        """The editor of manual moves."""

    @property
    def inputs(self) -> Arrays:
        """The inputs of runs."""

    @property
    def profiling(self) -> Profiling:
        """The profile of tasks."""

    @property
    def shown(self) -> Shown:
        """Rows of the setting on show, computed when they are first read."""

    @property
    def trials(self) -> EditTrials:
        """The trials of edited kernels."""

    def run_once(self) -> None:
        """Measure the wall of the setting on show."""

    def show_next(self, step: HistoryEntry, *, measured: bool = True) -> Mapping[str, Any]:
        """Go one step further and describe it; the page measures it next if `measured`."""

    def with_code(self) -> None:
        """Generate the code of the setting on show if it was only planned."""
