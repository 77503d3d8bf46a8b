"""How long settings take: a time with its interval, or a multiple of the baseline's time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explorer.ir.stage import Stage
from explorer.measure.compare import NONE, Comparison
from explorer.measure.walls import WallComparison
from widgets.draw.table import time_text
from widgets.model.brick_wall import WallRows
from widgets.model.compiled import Measurement
from widgets.model.knobs import Setting
from widgets.rammer.wall_table import off_text
from widgets.session.ended import told

ARROW = " → "  # between what a step changed and what it changed it to
AND = ";"  # before what else it changed


@dataclass(frozen=True)
class Step:
    """A setting that was reached, how, how long a run took there, and how the baseline compares."""

    setting: Setting
    what: str
    time: Measurement | None = None
    versus: Comparison | None = None


def verdict(
    step: Step, base: Step, planned_us: float, walls: WallComparison | None = None
) -> dict[str, Any]:
    """Return the time of a step, with that of the baseline where it has the same sizes and ran on
    the same machine; and how far off the prediction is, as its wall says.
    """
    if step.time is None:
        return {"big": "not measured yet", "small": f"predicted {time_text(planned_us)}"}
    time = step.time
    big = f"{time_text(time.median_us)} per run"
    small = f"99 %: {_between(time.low_us, time.high_us)}"
    plan = off_text(walls.error) if walls else ""
    if step.versus is None:
        small += f", n = {time.n}{_apart(step.setting, base.setting)}"
        return {"big": big, "small": small, "n": time.n, "plan": plan}
    found = against(step.versus)
    beside = f"baseline {time_text(step.versus.second.median_us)} in turns"
    ends = f"{found['low']:.2f} to {found['high']:.2f}, n = {found['n']}; {beside}"
    return found | {"big": big, "small": f"{small} · {found['short']} ({ends})", "plan": plan}


def _between(low_us: float, high_us: float) -> str:
    """Return an interval of times, its unit once where both have it."""
    low, high = time_text(low_us), time_text(high_us)
    same = low.split()[1:] == high.split()[1:]
    return f"{low.split()[0] if same else low} to {high}"


def _apart(now: Setting, base: Setting) -> str:
    """Return why the baseline is not compared with; "" where it is the setting on show."""
    if now.sizes != base.sizes:
        return "; the baseline has other sizes"
    if not base.is_here:
        return f"; the baseline is predicted, on {base.compiled.device.name}"
    return ""


def elsewhere(us: float, base_us: float, device: str) -> dict[str, Any]:
    """Return the prediction for hardware that is not here, against that of the baseline."""
    times = f"{us / base_us:.2f}× the baseline's prediction · " if base_us else ""
    words = f"{times}not here, so not measured"
    return {"big": f"{time_text(us)} predicted on {device}", "small": words, "runs": False}


def before_compiled(us: float, before_us: float, device: str) -> dict[str, Any]:
    """Return what is known of the same program on other hardware while it is compiled for that."""
    change = f" ({us / before_us - 1:+.1%})" if before_us else ""
    words = f"the same program on {device}, a prediction"
    big = f"{time_text(us)} predicted{change}"
    return {"big": big, "small": f"{words}, not compiled for it yet", "first": words, "runs": False}


def without_code(step: Step, planned_us: float, recorded: WallRows | None = None) -> dict[str, Any]:
    """What is known of a step that has no code to run here: a prediction and what was recorded
    elsewhere, or how far it came, and the error that it came no further for.
    """
    c = step.setting.compiled
    stage = c.program.stage
    if (ended := step.setting.ended) is not None:
        big = f"stopped at {ended.step}"
        small = ended.problem.sentence
        return {"big": big, "small": small, "runs": False, "failed": told(ended)}
    if stage < Stage.PLANNED:
        words = "nothing runs before code is generated: compile without `until`"
        return {"big": f"compiled until {stage.name}", "small": words, "runs": False}
    us, words = time_text(planned_us), "a prediction: no code of it runs on this machine"
    if c.device.kind == "cpu" and stage < Stage.EMITTED:
        words = f"a prediction: compiled until {stage.name}, without code"
        return {"big": f"{us} predicted", "small": words, "runs": False}
    if recorded is not None:
        words = f"a prediction; {recorded.said}: {time_text(recorded.total_us)}"
    return {"big": f"{us} predicted on {c.device.name}", "small": words, "runs": False}


def history(past: Sequence[Step], future: Sequence[Step], base: Step) -> list[dict[str, Any]]:
    """Return every step since the first, those that were undone last. `about`, `before` and `value`
    are the parts of one that changed one value, "" of others.
    """
    steps = [(s, False) for s in past] + [(s, True) for s in reversed(future)]
    found = []
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
        found.append(row)
    return found


def _change(what: str) -> dict[str, str]:
    """Return the parts of "units 80 → 8": what changed, from what, and to what."""
    before, arrow, value = what.partition(ARROW)
    if not arrow or ARROW in value or AND in value:
        return dict.fromkeys(("about", "before", "value"), "")
    about, _, was = before.rpartition(" ")
    return {"about": about, "before": was, "value": value}


def against(found: Comparison, other: str = "the baseline") -> dict[str, Any]:
    """Return the first's time over the other's, with its interval; `ratio` is 2 where it takes
    twice as long.
    """
    ratio, low, high = found.times
    sure = found.verdict != NONE
    short = f"{ratio:.2f}× {other}'s time" if sure else f"{NONE} from {other}"
    once = time_text(found.first.median_us)
    return {
        "big": short,
        "short": short,
        "small": f"99 %: {low:.2f} to {high:.2f}, n = {found.n}, {once} per run",
        "ratio": ratio,
        "low": low,
        "high": high,
        "sure": sure,
        "n": found.n,
        "from": min(0.8, low - 0.05),
        "to": max(1.25, high + 0.05),
    }
