"""Questions for pictures drawn in a thread, with progress and cancellation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from explorer.ops.reference.cancellation import cancellable
from explorer.passes.pipeline.progress import reporting_to
from widgets.session.answers import picture
from widgets.session.mutable_session import MutableSession
from widgets.session.timing.jobs import Job


def begin_picture(
    s: MutableSession, room: str, op: int = -1, device: str = "", rank: int = -1, **more: Any
) -> Any:
    """Draw a picture in a thread; a quick one is in this answer, others in that of `job`."""
    now = copy(s)  # a knob may be turned meanwhile

    def work(job: Job) -> Any:
        with reporting_to(job.at), cancellable(job.stop.is_set):
            return picture(now, room, op, device, rank, **more)

    return s.bench.jobs.beside(work)


ANSWERS: Mapping[str, Callable[..., Any]] = {"begin_picture": begin_picture}
