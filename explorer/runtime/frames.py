"""A program with decisions of the host: regions are compiled, the interpreter does what lies
between.

Each call of a function has a frame of its own, with values for the symbols that it defines; so
recursion, loops whose state grows, and shapes that depend on values run as the language means them.
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
from explorer.runtime.binding.decided import Decided
from explorer.runtime.binding.recording import Called, Traced
from explorer.runtime.memoized_calls import Key, MemoizedCalls
from explorer.runtime.regions import cut
from explorer.runtime.workers import clock

Array = np.ndarray
RunRegion: TypeAlias = Callable[[Mapping[str, Array], Sizes, "Traced | None"], Mapping[str, Array]]


class Frames:
    """A dynamic program that runs from any thread; `compiled` gives what runs a region, `hosted`
    are the functions that call themselves which the host shall follow. `memoised`: a call with
    arguments that another one of the run had gives what that gave. `strict`: match_casts that sizes
    decide are checked where they stand, as one of them does not hold.
    """

    def __init__(
        self,
        program: Program,
        compiled: Callable[[Program], RunRegion],
        hosted: Collection[str] = (),
        memoised: bool = False,
        strict: bool = False,
    ) -> None:
        found = cut(program, hosted, strict)
        self.memoised = memoised
        self.program, self.regions = found.program, found.regions
        self.symbols = {name: _symbols(region) for name, region in found.regions.items()}
        self.compiled = {name: compiled(region) for name, region in found.regions.items()}
        self.unread: dict[str, Unread] = {}
        calls = (b for _, b in self.program.bindings() if isinstance(b.expr, FunctionCall))
        self.called = frozenset(v.name for b in calls for v in b.vars[:1])

    def run(
        self, inputs: Mapping[str, Array], traced: Traced | None = None, given: Sizes | None = None
    ) -> list[Array]:
        """The outputs in order; `traced` gathers the launches of all regions, `given` are sizes
        that the inputs do not tell.

        Raises what `bind_sizes` and the match_casts raise.
        """
        sizes = {**(given or {}), **bind_sizes(self.program, inputs, given)}
        main = self.program.main
        regions: dict[str, Compiled] = {}
        interpreter = _Host(self.program, sizes, regions, self.unread)
        interpreter.traced, interpreter.called, interpreter.open = traced, self.called, []
        interpreter.kept = MemoizedCalls() if self.memoised else None

        def region(name: str, args: Sequence[Array], known: Sizes) -> list[Array]:
            if traced is not None:
                traced.path = interpreter.path
            return self.region(name, traced, args, known)

        regions |= {name: partial(region, name) for name in self.regions}
        return interpreter.run(main, [inputs[p.name] for p in main.params])

    def region(
        self, name: str, traced: Traced | None, args: Sequence[Array], sizes: Sizes
    ) -> list[Array]:
        """The outputs of a region, in order."""
        counters.add("regions_run")
        main = self.regions[name].main
        inputs = {p.name: a for p, a in zip(main.params, args, strict=True)}
        known = {s: sizes[s] for s in self.symbols[name] if s in sizes}
        found = self.compiled[name](inputs, known, traced)
        return [found[n] for n in main.output_names]


class _Host(Interpreter):
    """Does what lies between regions; what libraries do, and what is decided, is in the trace."""

    traced: Traced | None = None
    called: frozenset[str] = frozenset()  # the bindings that are calls
    open: list[tuple[str, str]]  # functions that are called, and the bindings that do
    kept: MemoizedCalls | None = None  # what calls gave

    def run(
        self,
        function: Function,
        args: Sequence[Array],
        given: Sizes | None = None,
        of: str = "",
    ) -> list[Array]:
        known: Key = ()
        if self.kept is not None and of in self.called:
            known = self.kept.key(function.name, args, given)
            if known in self.kept.results:
                return self.kept.results[known]
        binding, _, side = of.partition("/")
        if self.traced is None or not of:
            return self.keep(known, super().run(function, args, given, of))
        if side:
            self.decided("branch", binding, side == "then")
            return super().run(function, args, given, of)
        if of not in self.called:
            results = super().run(function, args, given, of)
            self.decided("trip", of, 1)
            return results
        self.open.append((function.name, of))
        mine = [outermost for name, outermost in self.open if name == function.name]
        self.decided("call", mine[0], len(mine) - 1)
        try:
            return self.keep(known, super().run(function, args, given, of))
        finally:
            self.open.pop()

    def keep(self, known: Key, found: list[Array]) -> list[Array]:
        """What a call gave, for those like it. It is no frame around the call: they are counted."""
        if self.kept is not None and known:
            self.kept.results[known] = found
        return found

    def loop(
        self, loop: Loop, values: Mapping[str, Array], sizes: Sizes, of: str
    ) -> Sequence[Array]:
        self.decided("enter", of, 0)
        return super().loop(loop, values, sizes, of)

    def decided(self, kind: str, binding: str, value: int) -> None:
        """Note what was decided."""
        if self.traced is not None:
            self.traced.decided.append(Decided(kind, binding, value, clock.cycles()))

    def library(
        self, binding: Binding, call: LibraryCall, given: Sequence[Array | None]
    ) -> Sequence[Array]:
        counters.add("library_calls")
        begin = clock.cycles()
        found = super().library(binding, call, given)
        if self.traced is not None:
            name = self.path + binding.vars[0].name
            self.traced.calls.append(Called(name, binding.origin, begin, clock.cycles()))
        return found


def _symbols(region: Program) -> tuple[str, ...]:
    """The symbols that a region needs values of; a value of 2 * n elements comes without n."""
    needed = frozenset[str]().union(*(symbols_in(p.type) for p in region.main.params))
    for function in region.functions:
        needed |= parameter_symbols(function)
    for _, binding in region.bindings():
        needed |= needed_by(binding)
        if isinstance(binding.expr, MatchCast):  # of symbols that have values before
            needed |= symbols_in(binding.var.type)
    return tuple(sorted(needed))
