"""An interpreter of a thread block: threads run one after the other from one `Sync` to the next.

The order is drawn anew each time; a `Shuffle` waits only for the threads that it combines. A read
before another thread's write gets poison or the old value: a missing `Sync` shows as a wrong value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.affine import Affine
from explorer.ir.combiners import COMBINERS
from explorer.ir.tile_program import For, Map, Shuffle, Span, Statement, Sync
from explorer.ir.tile_traversal import distributed_loops, threads_of

Env = dict[str, Any]
Registers = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class ThreadBlock:
    """An interpreter of a block's threads, with functions that run a statement and evaluate loops.

    `arrays` holds the buffers by name.
    """

    statement: Callable[[Statement, Env], None]
    values: Callable[[Span, Env], np.ndarray]
    affine: Callable[[Affine, Env], Any]
    arrays: dict[str, np.ndarray]

    def run(
        self,
        body: Sequence[Statement],
        env: Env,
        registers: Callable[[], Registers],
        order: np.random.Generator,
    ) -> None:
        """Run all threads to the last statement; `registers` creates a thread's, poisoned."""
        threads = range(threads_of(body))
        running = [(registers(), self._uniform(t, body, env)) for t in threads]
        running_threads = list(threads)
        while running_threads:
            turns, running_threads = list(order.permutation(running_threads)), []
            waiting: dict[int, list[int]] = {}
            while turns:
                n = int(turns.pop())
                own, steps = running[n]
                self.arrays.update(own)
                event = next(steps, None)
                if isinstance(event, Shuffle):
                    group = waiting.setdefault(n // event.lanes, [])
                    group.append(n)
                    if len(group) == event.lanes:  # threads outside of the group do not wait
                        _exchange(event, [running[k][0] for k in sorted(group)])
                        turns += order.permutation(waiting.pop(n // event.lanes)).tolist()
                elif event is not None:
                    running_threads.append(n)

    def _uniform(
        self, thread: int, body: Sequence[Statement], env: Env
    ) -> Iterator[Sync | Shuffle]:
        """Run one thread up to each Sync and shuffle, through the loops that all threads share."""
        for s in body:
            match s:
                case Sync() | Shuffle():
                    yield s
                case For(span, inner, None):
                    for v in self.values(span, env):
                        yield from self._uniform(thread, inner, env | {span.axis: int(v)})
                case For():
                    self._run_distributed(thread, s, env)
                case _:
                    self.statement(s, env)

    def _run_distributed(self, thread: int, s: For, env: Env) -> None:
        """Run the thread's own part of distributed loops."""
        loops, body = distributed_loops(s)
        places = []
        for loop in reversed(loops):
            assert loop.threads is not None
            places.append(thread % loop.threads.count)
            thread //= loop.threads.count
        if thread > 0:  # more threads than points
            return
        places.reverse()
        if len(body) == 1 and isinstance(body[0], Map) and _are_independent(loops, body[0]):
            own = [self._own_values(*x, env) for x in zip(loops, places, strict=True)]
            points = np.meshgrid(*own, indexing="ij")
            point_env = {x.span.axis: a.ravel() for x, a in zip(loops, points, strict=True)}
            if all(len(self.values(x, env)) for x in body[0].spans):
                self.statement(body[0], env | point_env)  # all its points at once
        else:
            self._run_values(loops, places, body, env)

    def _run_values(
        self, loops: Sequence[For], places: Sequence[int], body: Sequence[Statement], env: Env
    ) -> None:
        """Run a body for a thread's own values of some loops, one after the other."""
        if not loops:
            for s in body:
                self.statement(s, env)
            return
        for v in self._own_values(loops[0], places[0], env):
            inner_env = env | {loops[0].span.axis: int(v)}
            self._run_values(loops[1:], places[1:], body, inner_env)

    def _own_values(self, loop: For, place: int, env: Env) -> np.ndarray:
        """Return the values of a loop that are distributed to a thread index."""
        assert loop.threads is not None
        values = self.values(loop.span, env)
        number = values - self.affine(loop.span.base, env)
        return np.asarray(values[number % loop.threads.count == place])


def _exchange(s: Shuffle, group: Sequence[Registers]) -> None:
    """Combine threads' registers in a butterfly: halves of the lanes, then quarters, and so on."""
    name, at = s.target.buffer.name, int(s.target.offset.const)
    lanes, away = np.arange(s.lanes), s.lanes // 2
    values = np.array([own[name][at] for own in group])
    while away:
        values = COMBINERS[s.combiner].numpy(values, values[lanes ^ away])
        away //= 2
    for own, value in zip(group, values, strict=True):
        own[name][at] = value


def _are_independent(loops: Sequence[For], m: Map) -> bool:
    """Return True if no loop's base depends on another loop or on the map's own."""
    axes = {x.span.axis for x in loops}
    return not any(axes & x.base.variables for x in (*(y.span for y in loops), *m.spans))
