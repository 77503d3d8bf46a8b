"""Settings whose compilation fails: the program before the failed step, with the error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.compiler import compile_until_error
from explorer.driver import StepError
from explorer.errors import BadOption
from widgets.model.knob import Knob
from widgets.model.knobs import Setting, changed_options
from widgets.model.legal_tiles import without_refused_tile


def setting_until_error(now: Setting, knob: Knob, index: int) -> Setting:
    """Compile a setting with a knob at a value that ends in an error, up to that error.

    Raises BadOption if the compilation succeeds.
    """
    c = now.compiled
    options = replace(c.options, **changed_options(now, knob, index))
    check, donate = getattr(c, "check", False), getattr(c, "donate", ())
    while failure := compile_until_error(c.model, c.device, options, check=check, donate=donate):
        legal = without_refused_tile(options.roller, failure[1].problem)
        if legal == options.roller:
            break
        options = replace(options, roller=legal)
    if failure is None:
        raise BadOption(
            f"compiling with {knob.label} {knob.labels[index]} succeeds: there is no error to show",
            where=knob.name,
        )
    compiled, ended = failure
    return replace(now, compiled=compiled, ended=ended)


def error_part(ended: StepError | None) -> dict[str, Any] | None:
    """Return the error that a page shows over the program before the failed step."""
    if ended is None:
        return None
    return {"step": ended.step, "stage": ended.stage.name, **ended.problem.fields()}


def mark_failed_stage(
    stages: list[dict[str, Any]], ended: StepError | None
) -> list[dict[str, Any]]:
    """Return the cells of the stage strip with a cross at the stage that was not finished."""
    if ended is None:
        return stages
    words = f"stopped at {ended.step}: {ended.problem.sentence}"
    mine = {"checked": words, "failed": True}
    return [{**c, **mine} if c["stage"] == ended.stage.name else c for c in stages]
