"""Programs with decisions of the host: regions are compiled, the interpreter runs the rest.

Each call of a function has a frame of its own, with values for the symbols that it defines. So
recursion, loops whose state grows, and shapes that depend on values keep the language's meaning.

A pure function is called once for equal arguments if calls are memoised (Michie 1968, "Memo"
functions and machine learning). No value changes once it is computed, so one value may stand in
several places.

A run whose sizes break a relation omits the arms that contain it, if these are not taken:

y = if c: f(x) else g(x), where g has x: float32[n, 4] = match w: [m, 4], and n is not m
->  y = f(x), and c is checked: if it does not hold, the host runs up to the match_cast
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np

from explorer.errors import ShapeError
from explorer.grinder.host import Relation
from explorer.grinder.regions import cut_regions
from explorer.ir.annotations import symbols_in
from explorer.ir.calls import Branch, FunctionCall, LibraryCall, Loop, MatchCast
from explorer.ir.dims import Sizes, evaluate_dim
from explorer.ir.program import Binding, Function, Program
from explorer.ir.symbols import needed_by, parameter_symbols
from explorer.ir.text.text_tokens import print_dim
from explorer.ops.interpreter.evaluate import Compiled, Interpreter, Unread
from explorer.ops.interpreter.frame import bind_sizes
from explorer.process.counters import counters
from explorer.runtime.binding.launch_code import ControlEvent
from explorer.runtime.binding.recording import LibraryCallTrace, RunTrace
from explorer.runtime.workers import clock

Array = np.ndarray
RunRegion: TypeAlias = Callable[
    [Mapping[str, Array], Sizes, "RunTrace | None"], Mapping[str, Array]
]
MOST_COMPARED_BYTES = 4096  # of an argument; larger ones compare by identity; chosen
Key: TypeAlias = tuple[object, ...]
Arm = tuple[str, bool]  # first value of a branch of the main function; True: `then`


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


@dataclass(slots=True)
class MemoizedCalls:
    """The `results` of calls until a run ends.

    Large arguments are kept alive in `pinned`, so that no other array gets their identity.
    """

    results: dict[Key, list[np.ndarray]] = field(default_factory=dict)
    pinned: dict[int, np.ndarray] = field(default_factory=dict)

    def key(self, function: str, args: Sequence[np.ndarray], sizes: Sizes | None) -> Key:
        """Return the key of equal calls: NaN equals itself, and 0.0 differs from -0.0."""
        symbols = tuple(sorted((sizes or {}).items()))
        return (function, symbols, *(self._argument_key(a) for a in args))

    def _argument_key(self, value: np.ndarray) -> Key:
        if isinstance(value, np.ndarray) and value.nbytes <= MOST_COMPARED_BYTES:
            return value.dtype.str, value.shape, value.tobytes()
        self.pinned[id(value)] = value
        return (id(value),)


class PrunedProgram:
    """A program in which some branches have one arm, with a check of which arm was taken."""

    def __init__(
        self,
        program: Program,
        arms: Collection[Arm],
        compiled: Callable[[Program], RunRegion],
        strict: Callable[[], Frames],
    ) -> None:
        """Compile the program without these arms; `strict` runs it when one of them is taken."""
        self.names = program.main.output_names
        self.expected_conditions = {f"{binding}\0taken": not is_then for binding, is_then in arms}
        self.compiled, self.strict = compiled(_without_arms(program, dict(arms))), strict

    def run(
        self,
        inputs: Mapping[str, Array],
        traced: RunTrace | None = None,
        known_sizes: Sizes | None = None,
    ) -> list[Array]:
        """Return the outputs in order.

        Raises:
            ShapeError: A match_cast of an arm that is taken does not hold.
        """
        outputs = self.compiled(inputs, known_sizes or {}, traced)
        if all(
            bool(outputs[name]) == expected for name, expected in self.expected_conditions.items()
        ):
            return [outputs[name] for name in self.names]
        return self.strict().run(inputs, traced, known_sizes)


def broken_arms(
    program: Program, relations: Mapping[str, Sequence[Relation]], sizes: Sizes
) -> frozenset[Arm] | None:
    """Return the arms with a relation that does not hold, at most one of each branch.

    Return None if a relation elsewhere does not hold.
    """
    broken = {
        n for n, of_function in relations.items() if not all(r.holds(sizes) for r in of_function)
    }
    arms: dict[str, bool] = {}
    for binding in program.main.body:
        if isinstance(binding.expr, Branch) and broken:
            for is_then, name in ((True, binding.expr.then), (False, binding.expr.orelse)):
                inside = broken.intersection(_reachable(program, name, set()))
                if inside and binding.name in arms:
                    return None
                if inside:
                    arms[binding.name] = is_then
                    broken -= inside
    return None if broken else frozenset(arms.items())


def check_relations(
    program: Program, relations: Mapping[str, Sequence[Relation]], sizes: Sizes
) -> None:
    """Check that the sizes keep all relations, for devices that run without the host.

    Raises:
        ShapeError: The sizes break a relation.
    """
    for of_function in relations.values():
        for relation in of_function:
            if not relation.holds(sizes):
                expected, actual = (
                    evaluate_dim(d, sizes) for d in (relation.expected, relation.actual)
                )
                raise ShapeError(
                    f"dim {relation.axis} of {relation.name!r} in {program.name} must be "
                    f"{print_dim(relation.expected)} = {expected} and is {actual}",
                    where=relation.name,
                    expected=expected,
                    actual=actual,
                    try_="inputs of sizes that agree",
                )


def _reachable(program: Program, name: str, seen: set[str]) -> Iterator[str]:
    """Yield a function and those that it runs."""
    if name not in seen:
        seen.add(name)
        yield name
        for binding in program.function(name).body:
            for callee in binding.calls:
                yield from _reachable(program, callee, seen)


def _without_arms(program: Program, arms: Mapping[str, bool]) -> Program:
    """Return the program with both arms of each branch replaced by the other arm.

    It also outputs the conditions.
    """
    main, body = program.main, []
    outputs, names = main.outputs, main.output_names
    for binding in main.body:
        if isinstance(binding.expr, Branch) and binding.name in arms:
            expr = binding.expr
            other_arm = expr.orelse if arms[binding.name] else expr.then
            binding = replace(binding, expr=replace(expr, then=other_arm, orelse=other_arm))
            outputs, names = (*outputs, expr.cond), (*names, f"{binding.name}\0taken")
        body.append(binding)
    changed = replace(main, body=tuple(body), outputs=outputs, output_names=names)
    changed_program = program.with_function(changed)
    reached = {*_reachable(changed_program, main.name, set())}
    return replace(
        changed_program, functions=tuple(f for f in changed_program.functions if f.name in reached)
    )
