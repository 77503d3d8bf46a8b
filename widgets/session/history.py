"""Steps of a session, past and undone, and the verdict on each.

The verdict is a step's time with its interval, or as a multiple of the baseline's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.devices.target import target_of
from explorer.errors import BadOption
from explorer.ir.stage import Stage
from explorer.measure.compare import NONE, Comparison
from explorer.measure.walls import WallComparison
from widgets.draw.table import time_text
from widgets.model.brick_wall import WallRows
from widgets.model.compiled import Measurement
from widgets.model.knobs import Setting
from widgets.rammer.wall_table import off_text
from widgets.session.compiling import error_part

ARROW = " → "  # between the old and the new value
AND = ";"  # before further changes
MOST_STEPS = 50


@dataclass(frozen=True)
class HistoryEntry:
    """A setting in the history: how it was reached, its time, its comparison with the baseline."""

    setting: Setting
    what: str
    time: Measurement | None = None
    versus: Comparison | None = None


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


def verdict(
    step: HistoryEntry, base: HistoryEntry, planned_us: float, walls: WallComparison | None = None
) -> dict[str, Any]:
    """Return the time of a step, compared with the baseline if that has its sizes and ran here.

    Includes the error of the prediction, from the comparison of its walls.
    """
    if step.time is None:
        return {"big": "not measured yet", "small": f"predicted {time_text(planned_us)}"}
    time = step.time
    big = f"{time_text(time.median_us)} per run"
    small = f"99 %: {_between(time.low_us, time.high_us)}"
    plan = off_text(walls.error) if walls else ""
    if step.versus is None:
        small += f", n = {time.n}{_why_not_compared(step.setting, base.setting)}"
        return {"big": big, "small": small, "n": time.n, "plan": plan}
    comparison = against(step.versus)
    beside = f"baseline {time_text(step.versus.second.median_us)} in turns"
    ends = f"{comparison['low']:.2f} to {comparison['high']:.2f}, n = {comparison['n']}; {beside}"
    return comparison | {
        "big": big,
        "small": f"{small} · {comparison['short']} ({ends})",
        "plan": plan,
    }


def _between(low_us: float, high_us: float) -> str:
    """Return an interval of times, with one unit if both ends share it."""
    low, high = time_text(low_us), time_text(high_us)
    same = low.split()[1:] == high.split()[1:]
    return f"{low.split()[0] if same else low} to {high}"


def _why_not_compared(now: Setting, base: Setting) -> str:
    """Return why the baseline is not compared; "" if it is the setting on show."""
    if now.sizes != base.sizes:
        return "; the baseline has other sizes"
    if not base.is_here:
        return f"; the baseline is predicted, on {base.compiled.device.name}"
    return ""


def predicted_elsewhere(us: float, base_us: float, device: str) -> dict[str, Any]:
    """Return the prediction for hardware that is not here, relative to the baseline's."""
    times = f"{us / base_us:.2f}× the baseline's prediction · " if base_us else ""
    words = f"{times}not here, so not measured"
    return {"big": f"{time_text(us)} predicted on {device}", "small": words, "runs": False}


def before_compiled(us: float, before_us: float, device: str) -> dict[str, Any]:
    """Return the prediction for the same program on other hardware while it is being compiled."""
    change = f" ({us / before_us - 1:+.1%})" if before_us else ""
    words = f"the same program on {device}, a prediction"
    big = f"{time_text(us)} predicted{change}"
    return {"big": big, "small": f"{words}, not compiled for it yet", "first": words, "runs": False}


def without_code(
    step: HistoryEntry, planned_us: float, recorded: WallRows | None = None
) -> dict[str, Any]:
    """Describe a step that has no code to run here.

    A prediction and a recorded time, or how far the compilation came and its error.
    """
    c = step.setting.compiled
    stage = c.program.stage
    if (ended := step.setting.ended) is not None:
        big = f"stopped at {ended.step}"
        small = ended.problem.sentence
        return {"big": big, "small": small, "runs": False, "failed": error_part(ended)}
    if stage < Stage.PLANNED:
        words = "nothing runs before code is generated: compile without `until`"
        return {"big": f"compiled until {stage.title}", "small": words, "runs": False}
    us, words = time_text(planned_us), "a prediction: no code of it runs on this machine"
    if target_of(c.device).is_emitted and stage < Stage.EMITTED:
        words = f"a prediction: compiled until {stage.title}, without code"
        return {"big": f"{us} predicted", "small": words, "runs": False}
    if recorded is not None:
        words = f"a prediction; {recorded.title}: {time_text(recorded.total_us)}"
    return {"big": f"{us} predicted on {c.device.name}", "small": words, "runs": False}


def history(
    past: Sequence[HistoryEntry], future: Sequence[HistoryEntry], base: HistoryEntry
) -> list[dict[str, Any]]:
    """Return every step since the first, the undone ones last.

    `about`, `before` and `value` are the parts of a step that changed one value, else "".
    """
    steps = [(s, False) for s in past] + [(s, True) for s in reversed(future)]
    rows = []
    for i, (step, undone) in enumerate(steps):
        mine = step.setting == base.setting
        time = time_text(step.time.median_us) if step.time else ""
        row: dict[str, Any] = {
            "name": str(i),
            "what": step.what,
            **_change(step.what),
            "base": mine,
            "undone": undone,
            "on": i == len(past) - 1,
            "verdict": ", ".join(filter(None, ("baseline" if mine else "", time))),
        }
        if step.versus is not None:
            words = against(step.versus)
            row |= {k: words[k] for k in ("ratio", "low", "high", "sure")}
            row["verdict"] = words["short"]
        rows.append(row)
    return rows


def _change(what: str) -> dict[str, str]:
    """Return the parts of "units 80 → 8": what changed, from what, and to what."""
    before, arrow, value = what.partition(ARROW)
    if not arrow or ARROW in value or AND in value:
        return dict.fromkeys(("about", "before", "value"), "")
    about, _, was = before.rpartition(" ")
    return {"about": about, "before": was, "value": value}


def against(comparison: Comparison, other: str = "the baseline") -> dict[str, Any]:
    """Return the first's time over the other's, with its interval.

    `ratio` is 2 if the first takes twice as long.
    """
    ratio, low, high = comparison.times
    sure = comparison.verdict != NONE
    short = f"{ratio:.2f}× {other}'s time" if sure else f"{NONE} from {other}"
    once = time_text(comparison.first.median_us)
    return {
        "big": short,
        "short": short,
        "small": f"99 %: {low:.2f} to {high:.2f}, n = {comparison.n}, {once} per run",
        "ratio": ratio,
        "low": low,
        "high": high,
        "sure": sure,
        "n": comparison.n,
        "from": min(0.8, low - 0.05),
        "to": max(1.25, high + 0.05),
    }
