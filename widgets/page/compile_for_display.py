"""Compilation of a model for the explorer: planned first, so its picture comes before its code.

A model that cannot be compiled is compiled up to the error.
"""

from __future__ import annotations

from typing import Any

from explorer.compiler import Progress, compile_until_error
from explorer.compiler import compile as compile_model
from explorer.driver import StepError
from explorer.errors import Cancelled, IronworksError
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.ir.stage import Stage
from explorer.options import Options
from widgets.model.compiled import Compiled


def compile_for_display(
    source: Any,
    target: Any = "cpu",
    options: Options | None = None,
    progress: Progress | None = None,
) -> tuple[Compiled, StepError | None]:
    """Return a compilation as it is; plan a model, up to its error if there is one.

    The error is returned with the compilation before the failed step. `progress` gets the steps.
    Raises BadModelFile, UnsupportedOperator or TraceError if there is no program to show.
    """
    if hasattr(source, "snapshots"):
        return source, None
    model = source if isinstance(source, Model) else load(source)
    try:
        planned = compile_model(model, target, options, until=Stage.PLANNED, progress=progress)
        return planned, None
    except Cancelled:
        raise
    except IronworksError:
        ended = compile_until_error(model, target, options)
        if ended is None:
            raise
        return ended
