"""Programs with decisions of the host: regions are compiled, the interpreter runs the rest.

Each call of a function has a frame of its own, with values for the symbols that it defines. So
recursion, loops whose state grows, and shapes that depend on values keep the language's meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from explorer.counters import counters
from explorer.ir.annotations import symbols_in
from explorer.ir.calls import FunctionCall, LibraryCall, Loop, MatchCast
from explorer.ir.program import Binding, Function, Program
from explorer.ir.shapes.dims import Sizes
from explorer.ir.symbols import needed_by, parameter_symbols
from explorer.ops.reference.bind import bind_sizes
from explorer.ops.reference.evaluate import Compiled, Interpreter, Unread
from explorer.runtime.binding.control_events import ControlEvent
from explorer.runtime.binding.recording import LibraryCallTrace, RunTrace
from explorer.runtime.memoized_calls import Key, MemoizedCalls
from explorer.runtime.regions import cut_regions
from explorer.runtime.workers import clock

Array = np.ndarray
RunRegion: TypeAlias = Callable[
    [Mapping[str, Array], Sizes, "RunTrace | None"], Mapping[str, Array]
]


class Frames:
    """A dynamic program that runs from any thread.

    `compiled` returns the runner of a region, `hosted` are the recursive functions that the host
    shall run. `memoised`: a call reuses the results of an earlier call of the run with equal
    arguments. `strict`: match_casts that sizes decide are checked in place, because one of them
    does not hold.
    """

    def __init__(
        self,
        program: Program,
        compiled: Callable[[Program], RunRegion],
        hosted: Collection[str] = (),
        memoised: bool = False,
        strict: bool = False,
    ) -> None:
        """Cut the program into regions, and compile them."""
        cut_program = cut_regions(program, hosted, strict)
        self.memoised = memoised
        self.program, self.regions = cut_program.program, cut_program.regions
        self.symbols = {name: _symbols(region) for name, region in cut_program.regions.items()}
        self.compiled = {name: compiled(region) for name, region in cut_program.regions.items()}
        self.unread: dict[str, Unread] = {}
        calls = (b for _, b in self.program.bindings() if isinstance(b.expr, FunctionCall))
        self.called = frozenset(v.name for b in calls for v in b.vars[:1])

    def run(
        self,
        inputs: Mapping[str, Array],
        traced: RunTrace | None = None,
        known_sizes: Sizes | None = None,
    ) -> list[Array]:
        """Return the outputs in order.

        `traced` collects the launches of all regions, `given` are sizes that the inputs do not
        determine. Raises what `bind_sizes` and the match_casts raise.
        """
        sizes = {**(known_sizes or {}), **bind_sizes(self.program, inputs, known_sizes)}
        main = self.program.main
        regions: dict[str, Compiled] = {}
        interpreter = _Host(self.program, sizes, regions, self.unread)
        interpreter.traced, interpreter.called, interpreter.open = traced, self.called, []
        interpreter.memo = MemoizedCalls() if self.memoised else None

        def region(name: str, args: Sequence[Array], symbol_sizes: Sizes) -> list[Array]:
            if traced is not None:
                traced.path = interpreter.path
            return self.region(name, traced, args, symbol_sizes)

        regions |= {name: partial(region, name) for name in self.regions}
        return interpreter.run(main, [inputs[p.name] for p in main.params])

    def region(
        self, name: str, traced: RunTrace | None, args: Sequence[Array], sizes: Sizes
    ) -> list[Array]:
        """Return the outputs of a region, in order."""
        counters.add("regions_run")
        main = self.regions[name].main
        inputs = {p.name: a for p, a in zip(main.params, args, strict=True)}
        needed = {s: sizes[s] for s in self.symbols[name] if s in sizes}
        outputs = self.compiled[name](inputs, needed, traced)
        return [outputs[n] for n in main.output_names]


class _Host(Interpreter):
    """Interpreter between regions; library calls and decisions are traced."""

    traced: RunTrace | None = None
    called: frozenset[str] = frozenset()  # the bindings that are calls
    open: list[tuple[str, str]]  # open calls: function, and binding
    memo: MemoizedCalls | None = None  # results of calls

    def run(
        self,
        function: Function,
        args: Sequence[Array],
        caller_sizes: Sizes | None = None,
        of: str = "",
    ) -> list[Array]:
        key: Key = ()
        if self.memo is not None and of in self.called:
            key = self.memo.key(function.name, args, caller_sizes)
            if key in self.memo.results:
                return self.memo.results[key]
        binding, _, arm = of.partition("/")
        if self.traced is None or not of:
            return self.memoise(key, super().run(function, args, caller_sizes, of))
        if arm:
            self.record_decision("branch", binding, arm == "then")
            return super().run(function, args, caller_sizes, of)
        if of not in self.called:
            results = super().run(function, args, caller_sizes, of)
            self.record_decision("trip", of, 1)
            return results
        self.open.append((function.name, of))
        mine = [outermost for name, outermost in self.open if name == function.name]
        self.record_decision("call", mine[0], len(mine) - 1)
        try:
            return self.memoise(key, super().run(function, args, caller_sizes, of))
        finally:
            self.open.pop()

    def memoise(self, key: Key, results: list[Array]) -> list[Array]:
        """Store the results of a call for equal calls, and return them.

        It adds no Python frame around the call, because those are limited.
        """
        if self.memo is not None and key:
            self.memo.results[key] = results
        return results

    def loop(
        self, loop: Loop, values: Mapping[str, Array], sizes: Sizes, of: str
    ) -> Sequence[Array]:
        self.record_decision("enter", of, 0)
        return super().loop(loop, values, sizes, of)

    def record_decision(self, kind: str, binding: str, value: int) -> None:
        """Record a decision in the trace."""
        if self.traced is not None:
            self.traced.events.append(ControlEvent(kind, binding, value, clock.cycles()))

    def library(
        self, binding: Binding, call: LibraryCall, arguments: Sequence[Array | None]
    ) -> Sequence[Array]:
        counters.add("library_calls")
        begin = clock.cycles()
        results = super().library(binding, call, arguments)
        if self.traced is not None:
            name = self.path + binding.vars[0].name
            self.traced.calls.append(LibraryCallTrace(name, binding.origin, begin, clock.cycles()))
        return results


def _symbols(region: Program) -> tuple[str, ...]:
    """Return the symbols whose values a region needs; a value of 2 * n elements comes without n."""
    needed = frozenset[str]().union(*(symbols_in(p.type) for p in region.main.params))
    for function in region.functions:
        needed |= parameter_symbols(function)
    for _, binding in region.bindings():
        needed |= needed_by(binding)
        if isinstance(binding.expr, MatchCast):  # of symbols defined earlier
            needed |= symbols_in(binding.var.type)
    return tuple(sorted(needed))
