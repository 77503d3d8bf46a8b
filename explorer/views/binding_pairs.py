"""Pairs of bindings of two programs, and of the loop nests of their kernels.

Bindings are paired by what they compute, then by their uses, by their neighbours, and last by their
source operators. Value numbers find the first two: equal numbers compute the same from the inputs,
or are used alike. Fusion moves loops between kernels, so loop nests are paired on their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from explorer.ir.calls import Branch, FunctionCall, Gradient, KernelCall, LibraryCall, Loop, OpCall
from explorer.ir.kernel import Compute, Kernel
from explorer.ir.kernels.canonical import loop_text
from explorer.views.binding_list import BindingNode, Listed, Source

FEW = 16  # bindings of one source operator that are weighed against each other; chosen


class Pairs:
    """The pairs of two programs, built step by step.

    Value numbers are shared by both programs, so that equal numbers mean equal computations, not
    equal hashes.
    """

    def __init__(self, before: Listed, after: Listed) -> None:
        """Find all pairs."""
        self.before, self.after = before, after
        self.of_before: dict[int, int] = {}
        self.of_after: dict[int, int] = {}
        self.functions = {before.program.main.name: after.program.main.name}
        self._ids: dict[Hashable, int] = {}
        self._forward = tuple(ForwardNumbers(x, self._id).all() for x in (before, after))
        self._find()
        self.within = self._within()
        self._results_of = dict(self._results())

    def _id(self, key: Hashable) -> int:
        """Return the number of a key, the same for equal keys."""
        return self._ids.setdefault(key, len(self._ids))

    def take(self, a: int, b: int) -> None:
        """Pair two bindings, and the functions that they call."""
        self.of_before[a], self.of_after[b] = b, a
        old_calls, new_calls = self.before.nodes[a].binding.calls, self.after.nodes[b].binding.calls
        for f, g in zip(old_calls, new_calls):
            if f not in self.functions and g not in self.functions.values():
                self.functions[f] = g

    def _find(self) -> None:
        """Apply every way to pair, the most certain first."""
        forward, forward_after = self._forward
        self._alike(lambda n: forward[n.at], lambda n: forward_after[n.at])
        read = BackwardNumbers(self.before, self._id).all()
        reads = BackwardNumbers(self.after, self._id).all()
        self._alike(lambda n: read[n.at], lambda n: reads[n.at])
        self._alike(_by_origin, _by_origin)
        self._beside()
        self._alike(_by_kind, _by_kind, backwards=True)
        self._overlapping()
        self._of_the_same()
        self._beside()

    def _unpaired(self) -> tuple[list[BindingNode], list[BindingNode]]:
        """Return the unpaired bindings of both programs."""
        before = [n for n in self.before.nodes if n.at not in self.of_before]
        return before, [n for n in self.after.nodes if n.at not in self.of_after]

    def _alike(
        self,
        key: Callable[[BindingNode], Hashable],
        other: Callable[[BindingNode], Hashable],
        backwards: bool = False,
    ) -> None:
        """Pair bindings with equal keys, in order, or from the end if `backwards`."""
        before, after = self._unpaired()
        waiting: dict[Hashable, list[BindingNode]] = defaultdict(list)
        for node in after if backwards else reversed(after):
            if (mine := other(node)) is not None:
                waiting[mine].append(node)
        for node in reversed(before) if backwards else before:
            mine = key(node)
            if mine is not None and waiting.get(mine):
                self.take(node.at, waiting[mine].pop().at)

    def _beside(self) -> None:
        """Pair bindings with equal signatures that are the same operand, or reader, of a pair."""
        todo = list(self.of_before.items())
        while todo:
            a, b = todo.pop()
            for old, new in self._neighbours(a, b):
                free = old not in self.of_before and new not in self.of_after
                if free and self.before.nodes[old].does == self.after.nodes[new].does:
                    self.take(old, new)
                    todo.append((old, new))

    def _neighbours(self, a: int, b: int) -> Iterator[tuple[int, int]]:
        """Yield corresponding operands and readers of a pair."""
        for old, new in zip(self.before.nodes[a].sources, self.after.nodes[b].sources):
            mine, theirs = _argument_of(self.before, old), _argument_of(self.after, new)
            if mine[0] == theirs[0] == "value" and mine[2] == theirs[2]:
                yield int(mine[1]), int(theirs[1])
        readers = defaultdict(list)
        for reader, place, k in self.after.readers[b]:
            readers[place, k, self.after.nodes[reader].does].append(reader)
        for reader, place, k in self.before.readers[a]:
            candidates = readers.get((place, k, self.before.nodes[reader].does))
            if candidates:
                yield reader, candidates.pop(0)

    def _overlapping(self) -> None:
        """Pair calls with common source operators: a kernel and the one it was fused into."""
        before, after = self._unpaired()
        of: dict[str, list[BindingNode]] = defaultdict(list)
        for node in after:
            for op in node.binding.origin:
                of[op].append(node)
        scores: dict[tuple[int, int], tuple[float, float, int, int]] = {}
        for node in before:
            for op in node.binding.origin:
                for other in of.get(op, ())[:FEW]:
                    if what(node) in CALLS and what(other) in CALLS:
                        score = _overlap(node, other)
                        scores[node.at, other.at] = (*score, -node.at, -other.at)
        for a, b in sorted(scores, key=lambda pair: scores[pair], reverse=True):
            if a not in self.of_before and b not in self.of_after:
                self.take(a, b)

    def _of_the_same(self) -> None:
        """Pair bindings of one kind with the same operands and different work."""

        def mine(node: BindingNode) -> Hashable:
            return (what(node), tuple(self.same_source(s) for s in node.sources))

        def theirs(node: BindingNode) -> Hashable:
            return (what(node), node.sources)

        before, after = self._unpaired()
        if before and after:
            self._alike(
                lambda n: mine(n) if n.sources else None, lambda n: theirs(n) if n.sources else None
            )

    def _within(self) -> dict[int, int]:
        """Return unpaired bindings with the kernel that they were fused into.

        That is the only kernel which holds all their source operators.
        """
        of: dict[str, set[int]] = defaultdict(set)
        for node in self.after.nodes:
            if isinstance(node.binding.expr, KernelCall):
                for op in node.binding.origin:
                    of[op].add(node.at)
        homes_of = {}
        for node in self._unpaired()[0]:
            every = [of[op] for op in node.binding.origin]
            homes = set.intersection(*every) if every else set[int]()
            if len(homes) == 1:
                homes_of[node.at] = homes.pop()
        return homes_of

    def _results(self) -> Iterator[tuple[Source, Source]]:
        """Yield the values of fused bindings that are read outside, with the kernel's results."""
        groups: dict[int, list[int]] = defaultdict(list)
        for a, b in self.within.items():
            groups[b].append(a)
        for b, inside in groups.items():
            if b in self.of_after:
                inside.append(self.of_after[b])
            mine = set(inside)
            read = sorted(
                {
                    (a, k)
                    for a in inside
                    for reader, _, k in self.before.readers[a]
                    if reader not in mine
                }
            )
            read += [(a, k) for a, k in self._ends if a in mine and (a, k) not in read]
            results = self.after.nodes[b].binding.vars
            if len(read) == len(results):
                yield from ((("value", a, k), ("value", b, n)) for n, (a, k) in enumerate(read))

    @property
    def _ends(self) -> list[tuple[int, int]]:
        """The sources of all functions' outputs."""
        every = (s for sources in self.before.outputs.values() for s in sources)
        return [(int(at), k) for kind, at, k in every if kind == "value"]

    def same_source(self, source: Source) -> Source | None:
        """Return the source in the second program that is paired with one of the first, if any."""
        kind, at, k = source
        if kind == "value":
            pair = self.of_before.get(int(at))
            return None if pair is None else ("value", pair, k)
        if kind == "input":
            other = self.functions.get(str(at))
            return None if other is None else ("input", other, k)
        return source

    def corresponds(self, a: Source, b: Source) -> bool:
        """Return True if two sources give the same value: they are a pair, or compute the same.

        Loop-invariant parameters of a body stand for their arguments.
        """
        a, b = _argument_of(self.before, a), _argument_of(self.after, b)
        if b in (self.same_source(a), self._results_of.get(a)):
            return True
        if a[0] != "value" or b[0] != "value" or a[2] != b[2]:
            return False
        return self._forward[0][int(a[1])] == self._forward[1][int(b[1])]


def _argument_of(of: Listed, source: Source) -> Source:
    """Return the argument of a loop-invariant parameter, if its body has one call site."""
    kind, function, k = source
    caller = of.callers.get(str(function)) if kind == "input" else None
    if caller is None:
        return source
    node = of.nodes[caller]
    expr = node.binding.expr
    if isinstance(expr, Loop):
        fixed, first = len(expr.args), 2 + len(expr.state)  # behind iteration and condition
    elif isinstance(expr, Branch | FunctionCall):
        fixed, first = len(expr.args), 0
    else:
        return source
    if not first <= k < first + fixed:
        return source
    return _argument_of(of, node.sources[len(node.sources) - fixed + k - first])


CALLS = frozenset({"operator", "kernel", "library call", "control flow"})


def what(node: BindingNode) -> str:
    """Return the kind of a binding in a word."""
    match node.binding.expr:
        case OpCall():
            return "operator"
        case KernelCall():
            return "kernel"
        case LibraryCall():
            return "library call"
        case Branch() | Loop() | FunctionCall() | Gradient():
            return "control flow"
    return "view" if node.sources else "shapes"


def _by_origin(node: BindingNode) -> Hashable:
    """Return signature and source operators as a key."""
    return (node.does, node.binding.origin) if node.binding.origin else None


def _by_kind(node: BindingNode) -> Hashable:
    """Return kind and source operators as a key."""
    kind = "call" if what(node) in CALLS else what(node)
    return (kind, node.binding.origin) if node.binding.origin else None


def _overlap(a: BindingNode, b: BindingNode) -> tuple[float, float]:
    """Return the share of common source operators, and the first's number of reductions."""
    first, second = a.binding.origin, b.binding.origin
    return len(first & second) / len(first | second), _reduced(a)


def _reduced(node: BindingNode) -> float:
    """Return the number of reduction axes of a kernel."""
    expr = node.binding.expr
    kernel: Kernel | None = expr.kernel if isinstance(expr, KernelCall) else None
    return sum(len(c.reduce) for c in kernel.computes) if kernel else 0


class ForwardNumbers:
    """Forward value numbers: each stands for all that a binding computes from the inputs."""

    def __init__(self, of: Listed, number: Callable[[Hashable], int]) -> None:
        """Assign a number to each binding; `number` gives equal keys equal numbers."""
        self.of, self.number = of, number
        self.numbers: dict[int, int] = {}
        self.begun: set[str] = set()
        self.bodies: dict[str, int] = {}
        self.starts: dict[str, list[BindingNode]] = defaultdict(list)
        for node in of.nodes:
            self.starts[node.function.name].append(node)

    def all(self) -> Sequence[int]:
        """Return the number of every binding."""
        for function in self.of.program.functions:
            self._body(function.name)
        return [self.numbers[n.at] for n in self.of.nodes]

    def _body(self, name: str) -> int:
        """Return the number of a function; a recursive call is numbered by name."""
        if name in self.bodies:
            return self.bodies[name]
        if name in self.begun:
            return self.number(("recursion", name))
        self.begun.add(name)
        for node in self.starts[name]:
            inner = tuple(self._body(f) for f in node.binding.calls)
            sources = tuple(map(self._source, node.sources))
            self.numbers[node.at] = self.number((node.does, sources, inner))
        outputs = tuple(map(self._source, self.of.outputs[name]))
        self.bodies[name] = self.number(("body", outputs))
        return self.bodies[name]

    def _source(self, source: Source) -> Hashable:
        """Return the key of an operand."""
        kind, at, k = source
        if kind == "value":
            return (self.numbers.get(int(at), -1), k)
        if kind == "input":
            main = at == self.of.program.main.name
            return (kind, main, k)
        return source


class BackwardNumbers:
    """Backward value numbers: each stands for all uses of a binding, up to the outputs.

    A binding without uses has None.
    """

    def __init__(self, of: Listed, number: Callable[[Hashable], int]) -> None:
        """Assign a number to each binding; `number` gives equal keys equal numbers."""
        self.of, self.number = of, number

    def all(self) -> Sequence[int | None]:
        """Return the number of every binding."""
        main = self.of.program.main.name
        output_uses: dict[int, list[Hashable]] = defaultdict(list)
        for name, sources in self.of.outputs.items():
            for place, (kind, at, k) in enumerate(sources):
                if kind == "value":
                    output_uses[int(at)].append(("output", name == main, place, k))
        numbers: list[int | None] = [None] * len(self.of.nodes)
        for node in reversed(self.of.nodes):
            readers: list[Hashable] = list(output_uses.get(node.at, ()))
            for reader, place, k in self.of.readers[node.at]:
                if (mine := numbers[reader]) is not None:
                    readers.append(("reader", mine, place, k))
            if readers:
                key = (node.does, tuple(sorted(readers, key=repr)))
                numbers[node.at] = self.number(key)
        return numbers


@dataclass(frozen=True, slots=True)
class Nest:
    """A loop nest of a kernel that a binding calls, numbered among all nests."""

    number: int
    node: BindingNode
    loop: Compute


def nests(nodes: Sequence[BindingNode]) -> list[Nest]:
    """Return all loop nests of the kernels that these bindings call."""
    loop_nests: list[Nest] = []
    for node in nodes:
        if isinstance(node.binding.expr, KernelCall):
            for loop in node.binding.expr.kernel.computes:
                loop_nests.append(Nest(len(loop_nests), node, loop))
    return loop_nests


def paired_loops(
    before: Sequence[Nest], after: Sequence[Nest], pairs: dict[int, int]
) -> list[tuple[Nest, Nest]]:
    """Return the pairs of loop nests.

    First come equal nests of paired kernels (`pairs` of bindings), then equal ones anywhere, then
    those with the same source operators, then the remaining ones of two such kernels.
    """
    mates: dict[int, Nest] = {}
    taken: set[int] = set()

    def alike(key: Callable[[Nest], Hashable], other: Callable[[Nest], Hashable]) -> None:
        """Pair unpaired nests that have equal keys."""
        waiting: dict[Hashable, list[Nest]] = defaultdict(list)
        for nest in reversed(after):
            if nest.number not in taken:
                waiting[other(nest)].append(nest)
        for nest in before:
            if nest.number not in mates and waiting.get(key(nest)):
                mate = waiting[key(nest)].pop()
                mates[nest.number] = mate
                taken.add(mate.number)

    def here(nest: Nest) -> Hashable:
        """Return the kernel of the second program that a nest is expected in."""
        return pairs.get(nest.node.at, ("none", nest.node.at))

    alike(lambda n: (here(n), _does(n)), lambda n: (n.node.at, _does(n)))
    alike(lambda n: (_from(n), _does(n)), lambda n: (_from(n), _does(n)))
    alike(lambda n: (here(n), _from(n)), lambda n: (n.node.at, _from(n)))
    alike(
        lambda n: (_from(n), n.loop.combiner) if _from(n) else ("before", n.number),
        lambda n: (_from(n), n.loop.combiner),
    )
    alike(here, lambda n: n.node.at)
    return [(nest, mates[nest.number]) for nest in before if nest.number in mates]


def _does(nest: Nest) -> str:
    """Return the signature of a loop nest."""
    return loop_text(nest.loop)[0]


def _from(nest: Nest) -> frozenset[str]:
    """Return the source operators of a loop nest."""
    return nest.loop.origin or nest.node.binding.origin
