"""Pictures drawn in a thread, with progress and cancellation."""

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
    """Draw a picture in a thread; a quick one comes with this answer, others with that of `job`."""
    now = copy(s)  # a knob may be turned meanwhile

    def work(job: Job) -> Any:
        with telling(job.at), cancellable(job.stop.is_set):
            return picture(now, room, op, device, rank, **more)

    return s.bench.jobs.beside(work)


ANSWERS: Mapping[str, Callable[..., Any]] = {"begin_picture": begin_picture}
