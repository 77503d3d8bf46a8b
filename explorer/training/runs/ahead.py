"""Batches made ahead by a thread: never more than some, in their order, and none left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from queue import Full, Queue
from threading import Event, Thread
from types import TracebackType
from typing import Generic, TypeVar

from explorer.training.runs.timeline import Timeline

T = TypeVar("T")
LONGEST = 10.0  # seconds to wait for a thread that hangs while it makes a batch; it is a daemon
PATIENCE = 0.05  # seconds after which a thread that waits looks whether it is still wanted


class Ahead(Generic[T]):
    """What `make()` yields, `depth` items ahead at most. `ready(item)` is called in the thread that
    makes them. What goes wrong there is raised by the next `next`, with its own traceback; leaving
    the `with` ends the thread, also before the last item.
    """

    def __init__(
        self,
        make: Callable[[], Iterable[T]],
        depth: int,
        timeline: Timeline,
        ready: Callable[[T], object] = lambda item: None,
    ) -> None:
        self._make, self._ready, self._timeline = make, ready, timeline
        self._items: Queue[tuple[T, ...] | BaseException] = Queue(max(1, depth))
        self._stop = Event()
        self._thread = Thread(target=self._work, name="training-batches", daemon=True)
        self._taken = 0

    def __enter__(self) -> Ahead[T]:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(LONGEST)

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._timeline.span("main", "wait", self._taken):
                found = self._items.get()
            if isinstance(found, BaseException):
                raise found
            if not found:
                return
            self._taken += 1
            yield found[0]

    def _work(self) -> None:
        try:
            source, made = iter(self._make()), 0
            while not self._stop.is_set():
                with self._timeline.span("batches", "load", made):
                    found = tuple(islice(source, 1))
                for item in found:
                    self._ready(item)
                self._give(found)
                if not found:
                    return
                made += 1
        except BaseException as problem:
            self._give(problem)

    def _give(self, found: tuple[T, ...] | BaseException) -> None:
        """One item, none at the end, or what went wrong."""
        while not self._stop.is_set():
            try:
                self._items.put(found, timeout=PATIENCE)
                return
            except Full:
                continue
