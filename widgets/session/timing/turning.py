"""A knob turned beside: compiling tells how far it is and can be ended; the old picture stays until
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

from explorer.errors import Cancelled, IronworksError
from explorer.ir.stage import Stage
from explorer.ops.reference.cancellation import cancellable, end_if_unwanted
from explorer.passes.pipeline.progress import telling
from widgets.model.knob import Knob
from widgets.model.knobs import Setting, same_program, turned
from widgets.session.timing.jobs import AT_ONCE, Job, Jobs

AHEAD_SECONDS = 20.0  # that a machine works for what nobody may ask, chosen


class Turning:
    """What turns came to, until one is taken or the setting is another one."""

    def __init__(self) -> None:
        self._before: Setting | None = None
        self._found: list[tuple[str, Any, Setting | IronworksError]] = []
        self._begun: tuple[str, int] | None = None
        self._overtaken: tuple[str, int] | None = None

    def start(
        self, now: Setting, knob: Knob, index: int, jobs: Jobs, *, told: bool = False
    ) -> dict[str, Any]:
        """Begin to compile with one knob at another of its values; `over` where that is done.
        `told`: something is to be seen meanwhile, and is not waited with.
        """

        def work(job: Job) -> None:
            if self._known(now, knob, index) is None:
                with telling(job.at), cancellable(job.stop.is_set):
                    self._compile(now, knob, index)

        job = jobs.start(1, work)
        self._begun, self._overtaken = (knob.name, index), None
        return {"job": job, "over": jobs.wait(job, 0.0 if told else AT_ONCE)["over"]}

    def ahead(self, now: Setting, knobs: Sequence[Knob], jobs: Jobs) -> dict[str, Any]:
        """Compile, while the reader looks, what turns to the values of knobs would come to."""
        todo = [(k, i) for k in knobs for i in range(len(k.values)) if i != k.now]

        def work(job: Job) -> None:
            end = monotonic() + AHEAD_SECONDS
            with cancellable(lambda: job.stop.is_set() or monotonic() > end):
                for knob, index in todo:
                    end_if_unwanted(knob.label)
                    if self._known(now, knob, index) is None:
                        self._compile(now, knob, index)

        return {"job": jobs.start(1, work, aside=True)}

    def first(self, now: Setting, knob: Knob, index: int) -> Setting | None:
        """The same program on the hardware that a knob is turned to, which is there at once: None
        where what it is turned to is known, where it turns no hardware, and where this program has
        no plan for that.
        """
        if self._known(now, knob, index) is not None:
            return None
        try:
            found = same_program(now, knob, index)
            if found is not None:
                found.compiled.planned_wall(dict(found.sizes))
        except IronworksError:
            return None  # which compiling for it will tell, or mend
        return found

    def take(self, now: Setting, knob: Knob, index: int) -> Setting:
        """The setting that was compiled beside; compiled now where that was not begun. Raises
        Cancelled for a turn that another one overtook.
        """
        self._begun = None
        if (knob.name, index) == self._overtaken:
            self._overtaken = None
            raise Cancelled("a newer change came first")
        found = self._known(now, knob, index)
        if isinstance(found, IronworksError):
            raise found
        return turned(now, knob, index) if found is None else found

    def overtake(self, knob: Knob, index: int) -> None:
        """Refuse the turn that was begun, for this newer one."""
        begun, self._begun = self._begun, None
        self._overtaken = begun if begun != (knob.name, index) else None

    def _known(self, now: Setting, knob: Knob, index: int) -> Setting | IronworksError | None:
        if self._before != now or not 0 <= index < len(knob.values):
            return None
        asked = knob.name, knob.values[index]  # a user's values may have no hash
        return next((found for *of, found in self._found if tuple(of) == asked), None)

    def _compile(self, now: Setting, knob: Knob, index: int) -> None:
        """With the plan that is drawn first; an error is for who takes it: it is not compiled twice
        to be told.
        """
        try:
            found: Setting | IronworksError = turned(now, knob, index)
            if isinstance(found, Setting) and found.compiled.program.stage >= Stage.PLANNED:
                found.compiled.planned_wall(dict(found.sizes))
        except Cancelled:
            raise
        except IronworksError as problem:
            found = problem
        if self._before != now:
            self._before, self._found = now, []
        if 0 <= index < len(knob.values):
            self._found.append((knob.name, knob.values[index], found))
