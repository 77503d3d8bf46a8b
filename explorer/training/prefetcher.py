"""Prefetching of batches by a thread: bounded, in order, without losses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from queue import Full, Queue
from threading import Event, Thread
from types import TracebackType
from typing import Generic, TypeVar

from explorer.training.fitted import Timeline

T = TypeVar("T")
LONGEST = 10.0  # seconds to wait for a thread that hangs while it makes a batch; it is a daemon
PATIENCE = 0.05  # seconds after which a thread that waits looks whether it is still wanted


class Prefetcher(Generic[T]):
    """A prefetcher of the items of `make()`, at most `depth` ahead.

    `ready(item)` is called in the producing thread. Exceptions there are raised by the next `next`,
    with their own traceback; leaving the `with` ends the thread, also before the last item.
    """

    def __init__(
        self,
        make: Callable[[], Iterable[T]],
        depth: int,
        timeline: Timeline,
        ready: Callable[[T], object] = lambda item: None,
    ) -> None:
        """Create a prefetcher; its thread starts on entering the context."""
        self._make, self._ready, self._timeline = make, ready, timeline
        self._items: Queue[tuple[T, ...] | BaseException] = Queue(max(1, depth))
        self._stop = Event()
        self._thread = Thread(target=self._work, name="training-batches", daemon=True)
        self._taken = 0

    def __enter__(self) -> Prefetcher[T]:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the thread."""
        self._stop.set()
        self._thread.join(LONGEST)

    def __iter__(self) -> Iterator[T]:
        """Yield the items in order."""
        while True:
            with self._timeline.span("main", "wait", self._taken):
                received = self._items.get()
            if isinstance(received, BaseException):
                raise received
            if not received:
                return
            self._taken += 1
            yield received[0]

    def _work(self) -> None:
        try:
            source, count = iter(self._make()), 0
            while not self._stop.is_set():
                with self._timeline.span("batches", "load", count):
                    items = tuple(islice(source, 1))
                for item in items:
                    self._ready(item)
                self._give(items)
                if not items:
                    return
                count += 1
        except BaseException as problem:
            self._give(problem)

    def _give(self, message: tuple[T, ...] | BaseException) -> None:
        """Put an item, an end mark or an exception in the queue."""
        while not self._stop.is_set():
            try:
                self._items.put(message, timeout=PATIENCE)
                return
            except Full:
                continue
