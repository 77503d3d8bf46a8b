"""Pictures that are drawn beside: one that takes long tells how far it is, and can be cancelled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from explorer.ops.reference.cancellation import cancellable
from explorer.passes.pipeline.progress import telling
from widgets.session.answers import picture
from widgets.session.changing import Changing
from widgets.session.timing.jobs import Job


def begin_picture(
    s: Changing, room: str, op: int = -1, device: str = "", rank: int = -1, **more: Any
) -> Any:
    """Begin to draw a picture of what is on show now, beside: what is drawn at once comes with the
    answer, all else with that of its job.
    """
    now = copy(s)  # what is on show may change meanwhile

    def work(job: Job) -> Any:
        with telling(job.at), cancellable(job.stop.is_set):
            return picture(now, room, op, device, rank, **more)

    return s.bench.jobs.beside(work)


ANSWERS: Mapping[str, Callable[..., Any]] = {"begin_picture": begin_picture}
