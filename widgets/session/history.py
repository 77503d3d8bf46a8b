"""The steps of a session: those that led here, those that were undone, and the baseline."""

from __future__ import annotations

from dataclasses import dataclass, replace

from explorer.errors import BadOption
from widgets.session.verdict import Step

MOST_STEPS = 50


@dataclass(frozen=True)
class History:
    """`past` ends with the step on show; others are compared with `pinned`, the baseline."""

    past: tuple[Step, ...]
    pinned: Step
    future: tuple[Step, ...] = ()

    @property
    def now(self) -> Step:
        """The step on show."""
        return self.past[-1]

    @property
    def before(self) -> Step:
        """The step before it; raises BadOption where there is none."""
        if len(self.past) < 2:
            raise BadOption("there is nothing to undo")
        return self.past[-2]

    @property
    def undone(self) -> Step:
        """The step that was undone last; raises BadOption where there is none."""
        if not self.future:
            raise BadOption("there is nothing to redo")
        return self.future[-1]

    @property
    def words(self) -> list[str]:
        """What undoing and doing again would do, each "" where it is nothing."""
        back = f"Undo {self.now.what} (U)" if len(self.past) > 1 else ""
        return [back, f"Redo {self.future[-1].what} (Shift U)" if self.future else ""]

    def with_next(self, step: Step) -> History:
        """A step further; what was undone is forgotten."""
        return History((*self.past, step)[-MOST_STEPS:], self.pinned)

    def with_now(self, step: Step) -> History:
        """The step on show with what a clock said of it; the baseline too, where it is that."""
        pinned = self.pinned
        if step.setting == pinned.setting:
            pinned = replace(step, what=pinned.what)
        return History((*self.past[:-1], step), pinned, self.future)

    def undo(self) -> History:
        """A step back."""
        return History(self.past[:-1], self.pinned, (*self.future, self.now))

    def redo(self) -> History:
        """The step that was undone last, again."""
        return History((*self.past, self.undone), self.pinned, self.future[:-1])

    def to(self, at: int) -> History:
        """Any step, in the order of all that were made."""
        steps = (*self.past, *reversed(self.future))
        return History(steps[: at + 1], self.pinned, tuple(reversed(steps[at + 1 :])))

    def pin(self, step: Step) -> History:
        """The step on show, as it is given here, is the baseline: none was compared with it yet."""
        past = tuple(replace(s, versus=None) for s in (*self.past[:-1], step))
        return History(past, past[-1], tuple(replace(s, versus=None) for s in self.future))
