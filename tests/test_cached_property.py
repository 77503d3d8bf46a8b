"""A property that is computed once: from any thread, and without a lock that would outlive it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier, Event, Thread

from explorer.cached_property import cached_property


@dataclass(frozen=True)
class Box:
    """One whose contents take long."""

    wait: Event | Barrier

    @cached_property
    def contents(self) -> object:
        """What is in it."""
        self.wait.wait(10)
        return object()


def test_it_is_computed_once_and_its_words_are_those_of_the_function() -> None:
    done = Event()
    done.set()
    box = Box(done)
    assert box.contents is box.contents
    assert Box.contents.__doc__ == "What is in it."


def test_one_object_does_not_wait_for_another_one() -> None:
    """Python 3.11 has one lock for all objects of a class."""
    slow, quick = Event(), Event()
    quick.set()
    first = Box(slow)
    thread = Thread(target=lambda: first.contents)
    thread.start()
    try:
        other: list[object] = []
        second = Thread(target=lambda: other.append(Box(quick).contents), daemon=True)
        second.start()
        second.join(5)
        assert other
    finally:
        slow.set()
        thread.join()


def test_threads_that_compute_it_at_once_get_the_same() -> None:
    box = Box(Barrier(2))
    with ThreadPoolExecutor(2) as pool:
        a, b = pool.map(lambda _: box.contents, range(2))
    assert a is b
