"""A thread block, interpreted: its threads go one after the other from one `Sync` to the next, in
an order drawn anew each time; a `Shuffle` waits for those that it combines, and for no others.

What a thread reads before the thread that makes it had its turn is poison, or what was there
before: a missing `Sync` shows as a wrong value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.ir.affine import Affine
from explorer.ir.combiners import COMBINERS
from explorer.ir.tile_programs.statements import For, Map, Shuffle, Span, Statement, Sync
from explorer.ir.tile_programs.traversal import dealt, threads_of

Env = dict[str, Any]
Registers = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class ThreadBlock:
    """How a block's threads do one statement, and find what a loop runs over; `arrays` is where
    both find buffers by name.
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
        """All threads from the first statement to the last; `registers` are new ones, poisoned."""
        threads = range(threads_of(body))
        running = [(registers(), self._uniform(t, body, env)) for t in threads]
        there = list(threads)
        while there:
            turns, there = list(order.permutation(there)), []
            waiting: dict[int, list[int]] = {}
            while turns:
                n = int(turns.pop())
                own, steps = running[n]
                self.arrays.update(own)
                came = next(steps, None)
                if isinstance(came, Shuffle):
                    group = waiting.setdefault(n // came.lanes, [])
                    group.append(n)
                    if len(group) == came.lanes:  # the others wait for nobody of these
                        _exchange(came, [running[k][0] for k in sorted(group)])
                        turns += order.permutation(waiting.pop(n // came.lanes)).tolist()
                elif came is not None:
                    there.append(n)

    def _uniform(
        self, thread: int, body: Sequence[Statement], env: Env
    ) -> Iterator[Sync | Shuffle]:
        """One thread, up to each Sync and shuffle: what all threads go through together."""
        for s in body:
            match s:
                case Sync() | Shuffle():
                    yield s
                case For(span, inner, None):
                    for v in self.values(span, env):
                        yield from self._uniform(thread, inner, env | {span.axis: int(v)})
                case For():
                    self._dealt(thread, s, env)
                case _:
                    self.statement(s, env)

    def _dealt(self, thread: int, s: For, env: Env) -> None:
        """The thread's own part of loops that are dealt out."""
        loops, body = dealt(s)
        places = []
        for loop in reversed(loops):
            assert loop.threads is not None
            places.append(thread % loop.threads.count)
            thread //= loop.threads.count
        if thread > 0:  # it is past the last one
            return
        places.reverse()
        if len(body) == 1 and isinstance(body[0], Map) and _are_apart(loops, body[0]):
            own = [self._own(*x, env) for x in zip(loops, places, strict=True)]
            points = np.meshgrid(*own, indexing="ij")
            here = {x.span.axis: a.ravel() for x, a in zip(loops, points, strict=True)}
            if all(len(self.values(x, env)) for x in body[0].spans):
                self.statement(body[0], env | here)  # all its points at once
        else:
            self._values(loops, places, body, env)

    def _values(
        self, loops: Sequence[For], places: Sequence[int], body: Sequence[Statement], env: Env
    ) -> None:
        if not loops:
            for s in body:
                self.statement(s, env)
            return
        for v in self._own(loops[0], places[0], env):
            here = env | {loops[0].span.axis: int(v)}
            self._values(loops[1:], places[1:], body, here)

    def _own(self, loop: For, place: int, env: Env) -> np.ndarray:
        """The values of a loop that are dealt to a place."""
        assert loop.threads is not None
        values = self.values(loop.span, env)
        number = values - self.affine(loop.span.base, env)
        return np.asarray(values[number % loop.threads.count == place])


def _exchange(s: Shuffle, group: Sequence[Registers]) -> None:
    """Each of some threads combines what it has with what the one so many places away has."""
    name, at = s.target.buffer.name, int(s.target.offset.const)
    lanes, away = np.arange(s.lanes), s.lanes // 2
    values = np.array([own[name][at] for own in group])
    while away:
        values = COMBINERS[s.combiner].numpy(values, values[lanes ^ away])
        away //= 2
    for own, value in zip(group, values, strict=True):
        own[name][at] = value


def _are_apart(loops: Sequence[For], m: Map) -> bool:
    """Whether no loop begins where another one stands, nor one of the map's own."""
    axes = {x.span.axis for x in loops}
    return not any(axes & x.base.variables for x in (*(y.span for y in loops), *m.spans))
