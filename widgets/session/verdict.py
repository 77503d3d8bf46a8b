"""What may be said of the times of settings: a time with its interval, or a ratio against A."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from explorer.ir.stage import Stage
from explorer.measure.compare import Comparison
from widgets.draw.table import time_text
from widgets.model.brick_wall import WallRows
from widgets.model.compiled import Measurement
from widgets.model.knobs import Setting
from widgets.session.ended import told


@dataclass(frozen=True)
class Step:
    """A setting that was reached, how, how long a run took there, and whether faster than A."""

    setting: Setting
    what: str
    time: Measurement | None = None
    versus: Comparison | None = None


def verdict(step: Step, base: Step, planned_us: float) -> dict[str, Any]:
    """The time of a step, against A where that is another setting of the same sizes. Where it was
    planned for other hardware than is here, that is told.
    """
    found = _timed(step, base, planned_us)
    device = step.setting.compiled.device
    if getattr(device, "base", None) is not None:
        found["small"] += f"; measured here, planned for {device.name}"
    return found


def _timed(step: Step, base: Step, planned_us: float) -> dict[str, Any]:
    if step.time is None:
        return {"big": "not measured yet", "small": f"planned {time_text(planned_us)}"}
    if step.versus is not None:
        return against(step.versus)
    low, high = time_text(step.time.low_us), time_text(step.time.high_us)
    other = "; A has other sizes" if step.setting.sizes != base.setting.sizes else ""
    small = f"99% interval {low} to {high}, n = {step.time.n}{other}"
    return {"big": f"{time_text(step.time.median_us)} a run", "small": small, "n": step.time.n}


def before_compiled(us: float, before_us: float, device: str) -> dict[str, Any]:
    """What is known of the same program on other hardware while it is compiled for that."""
    change = f" ({us / before_us - 1:+.1%})" if before_us else ""
    words = f"the same program on {device}, a prediction"
    big = f"{time_text(us)} planned{change}"
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
        return {"big": f"{us} planned", "small": words, "runs": False}
    if recorded is not None:
        words = f"a prediction; {recorded.said}: {time_text(recorded.total_us)}"
    return {"big": f"{us} on {c.device.name}", "small": words, "runs": False}


def history(past: Sequence[Step], future: Sequence[Step], base: Step) -> list[dict[str, Any]]:
    """Every step since the first, those that were undone last; ratios are against A."""
    steps = [(s, False) for s in past] + [(s, True) for s in reversed(future)]
    found = []
    for i, (step, undone) in enumerate(steps):
        row: dict[str, Any] = {
            "name": "A" if step.setting == base.setting else str(i),
            "what": step.what,
            "undone": undone,
            "on": i == len(past) - 1,
            "verdict": time_text(step.time.median_us) if step.time else "",
        }
        if step.versus is not None:
            words = against(step.versus)
            row |= {k: words[k] for k in ("ratio", "low", "high", "sure")}
            row["verdict"] = words["short"]
        found.append(row)
    return found


def against(found: Comparison) -> dict[str, Any]:
    """A verdict with the ratio's interval: faster, slower, or not distinguishable."""
    ratio, low, high = found.ratio, found.low, found.high
    sure = found.verdict != "not distinguishable"
    short = f"{ratio:.2f}× {found.verdict}" if sure else found.verdict
    once = time_text(found.first.median_us)
    return {
        "big": f"{short} than A" if sure else f"{short} from A",
        "short": short,
        "small": f"99% interval {low:.2f} to {high:.2f}, n = {found.n}, {once} a run",
        "ratio": ratio,
        "low": low,
        "high": high,
        "sure": sure,
        "n": found.n,
        "from": min(0.8, low - 0.05),
        "to": max(1.25, high + 0.05),
    }
