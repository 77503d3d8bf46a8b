"""A model that the house is to show: planned, so that its picture comes before its code; where that
fails, compiled as far as it comes.
"""

from __future__ import annotations

from typing import Any

from explorer.compiler import Progress, halted
from explorer.compiler import compile as compile_model
from explorer.errors import Cancelled, IronworksError
from explorer.frontends.load import load
from explorer.frontends.model import Model
from explorer.ir.stage import Stage
from explorer.making import Ended
from explorer.options import Options
from widgets.model.compiled import Compiled


def opened(
    given: Any,
    target: Any = "cpu",
    options: Options | None = None,
    progress: Progress | None = None,
) -> tuple[Compiled, Ended | None]:
    """A compilation as it is given; a model planned, and where that ends in an error the
    compilation until the last step before it, with the error. `progress` is told of the steps.

    Raises BadModelFile, UnsupportedOperator or TraceError where there is no program to show.
    """
    if hasattr(given, "snapshots"):
        return given, None
    model = given if isinstance(given, Model) else load(given)
    try:
        found = compile_model(model, target, options, until=Stage.PLANNED, progress=progress)
        return found, None
    except Cancelled:
        raise
    except IronworksError:
        ended = halted(model, target, options)
        if ended is None:
            raise
        return ended
