"""The steps of a session: past, undone, and the baseline."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.errors import BadOption
from widgets.session.verdict import HistoryEntry

MOST_STEPS = 50


@dataclass(frozen=True)
class History:
    """The steps of a session: `past` ends with the step on show, `pinned` is the baseline."""

    past: tuple[HistoryEntry, ...]
    pinned: HistoryEntry
    future: tuple[HistoryEntry, ...] = ()

    @property
    def now(self) -> HistoryEntry:
        """The step on show."""
        return self.past[-1]

    @property
    def before(self) -> HistoryEntry:
        """The step before it; raises BadOption if there is none."""
        if len(self.past) < 2:
            raise BadOption("there is nothing to undo")
        return self.past[-2]

    @property
    def undone(self) -> HistoryEntry:
        """The step that was undone last; raises BadOption if there is none."""
        if not self.future:
            raise BadOption("there is nothing to redo")
        return self.future[-1]

    @property
    def words(self) -> list[str]:
        """The labels of undo and redo, each "" if there is nothing to do."""
        back = f"Undo {self.now.what} (U)" if len(self.past) > 1 else ""
        return [back, f"Redo {self.future[-1].what} (Shift U)" if self.future else ""]

    def with_next(self, step: HistoryEntry) -> History:
        """Return the history one step further, without the undone steps."""
        return History((*self.past, step)[-MOST_STEPS:], self.pinned)

    def with_now(self, step: HistoryEntry) -> History:
        """Replace the step on show by the same step with its time.

        The baseline is replaced too if it is that step.
        """
        pinned = self.pinned
        if step.setting == pinned.setting:
            pinned = replace(step, what=pinned.what)
        return History((*self.past[:-1], step), pinned, self.future)

    def undo(self) -> History:
        """Return the history one step back."""
        return History(self.past[:-1], self.pinned, (*self.future, self.now))

    def redo(self) -> History:
        """Return the history with the last undone step restored."""
        return History((*self.past, self.undone), self.pinned, self.future[:-1])

    def to(self, at: int) -> History:
        """Return the history at any step, by its position among all steps."""
        steps = (*self.past, *reversed(self.future))
        return History(steps[: at + 1], self.pinned, tuple(reversed(steps[at + 1 :])))

    def pin(self, step: HistoryEntry) -> History:
        """Make `step`, the step on show, the baseline; clear all comparisons."""
        past = tuple(replace(s, versus=None) for s in (*self.past[:-1], step))
        return History(past, past[-1], tuple(replace(s, versus=None) for s in self.future))
