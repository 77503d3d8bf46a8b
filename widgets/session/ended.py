"""A setting whose compilation ends in an error, as far as it came: the program before the step that
raised it, with the error over it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.compiler import halted
from explorer.errors import BadOption
from explorer.making import Ended
from widgets.model.knob import Knob
from widgets.model.knobs import Setting, changed_options
from widgets.model.legal_tiles import without_refused_tile


def as_far(now: Setting, knob: Knob, index: int) -> Setting:
    """The setting with one knob at a value that it cannot be compiled with, as far as it comes.

    Raises BadOption where it can be.
    """
    c = now.compiled
    options = replace(c.options, **changed_options(now, knob, index))
    check, donate = getattr(c, "check", False), getattr(c, "donate", ())
    while found := halted(c.model, c.device, options, check=check, donate=donate):
        legal = without_refused_tile(options.roller, found[1].problem)
        if legal == options.roller:
            break
        options = replace(options, roller=legal)
    if found is None:
        raise BadOption(
            f"compiling with {knob.label} {knob.labels[index]} ends in no error", where=knob.name
        )
    compiled, ended = found
    return replace(now, compiled=compiled, ended=ended)


def told(ended: Ended | None) -> dict[str, Any] | None:
    """What a page shows over the program before the step that failed."""
    if ended is None:
        return None
    return {"step": ended.step, "stage": ended.stage.name, **ended.problem.fields()}


def marked(stages: list[dict[str, Any]], ended: Ended | None) -> list[dict[str, Any]]:
    """The cells of the strip with a cross at the stage that was not finished."""
    if ended is None:
        return stages
    words = f"stopped at {ended.step}: {ended.problem.sentence}"
    mine = {"checked": words, "failed": True}
    return [{**c, **mine} if c["stage"] == ended.stage.name else c for c in stages]
