"""Which binding of one program is which of the other: by what it computes, by who reads it, by what
stands beside it, and last by the source operators that it comes from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator

from explorer.differences.computed import Made, Read
from explorer.differences.listed import Listed, Node, Source
from explorer.ir.calls import Branch, FunctionCall, Gradient, KernelCall, LibraryCall, Loop, OpCall
from explorer.ir.kernel import Kernel

FEW = 16  # bindings of one source operator that are weighed against each other; chosen


class Pairs:
    """The pairs of two programs as they are found. Numbers of equal computations are one number:
    they are given out once for both programs, so that equal means equal and not equal by a hash.
    """

    def __init__(self, before: Listed, after: Listed) -> None:
        self.before, self.after = before, after
        self.of_before: dict[int, int] = {}
        self.of_after: dict[int, int] = {}
        self.functions = {before.program.main.name: after.program.main.name}
        self._ids: dict[Hashable, int] = {}
        self._made = tuple(Made(x, self._id).all() for x in (before, after))
        self._find()
        self.within = self._within()
        self._results_of = dict(self._results())

    def _id(self, key: Hashable) -> int:
        return self._ids.setdefault(key, len(self._ids))

    def take(self, a: int, b: int) -> None:
        """These two are one."""
        self.of_before[a], self.of_after[b] = b, a
        one, other = self.before.nodes[a].binding.calls, self.after.nodes[b].binding.calls
        for f, g in zip(one, other):
            if f not in self.functions and g not in self.functions.values():
                self.functions[f] = g

    def _find(self) -> None:
        made, other = self._made
        self._alike(lambda n: made[n.at], lambda n: other[n.at])
        read = Read(self.before, self._id).all()
        reads = Read(self.after, self._id).all()
        self._alike(lambda n: read[n.at], lambda n: reads[n.at])
        self._alike(_by_origin, _by_origin)
        self._beside()
        self._alike(_by_kind, _by_kind, backwards=True)
        self._overlapping()
        self._of_the_same()
        self._beside()

    def _left(self) -> tuple[list[Node], list[Node]]:
        before = [n for n in self.before.nodes if n.at not in self.of_before]
        return before, [n for n in self.after.nodes if n.at not in self.of_after]

    def _alike(
        self,
        key: Callable[[Node], Hashable],
        other: Callable[[Node], Hashable],
        backwards: bool = False,
    ) -> None:
        """Pair what has one key, in order; from the end where the last is the one that is read."""
        before, after = self._left()
        waiting: dict[Hashable, list[Node]] = defaultdict(list)
        for node in after if backwards else reversed(after):
            if (mine := other(node)) is not None:
                waiting[mine].append(node)
        for node in reversed(before) if backwards else before:
            mine = key(node)
            if mine is not None and waiting.get(mine):
                self.take(node.at, waiting[mine].pop().at)

    def _beside(self) -> None:
        """Pair what does the same and makes, or reads, the same place of a pair."""
        todo = list(self.of_before.items())
        while todo:
            a, b = todo.pop()
            for one, other in self._neighbours(a, b):
                free = one not in self.of_before and other not in self.of_after
                if free and self.before.nodes[one].does == self.after.nodes[other].does:
                    self.take(one, other)
                    todo.append((one, other))

    def _neighbours(self, a: int, b: int) -> Iterator[tuple[int, int]]:
        for one, other in zip(self.before.nodes[a].sources, self.after.nodes[b].sources):
            mine, theirs = _given(self.before, one), _given(self.after, other)
            if mine[0] == theirs[0] == "value" and mine[2] == theirs[2]:
                yield int(mine[1]), int(theirs[1])
        readers = defaultdict(list)
        for reader, place, k in self.after.readers[b]:
            readers[place, k, self.after.nodes[reader].does].append(reader)
        for reader, place, k in self.before.readers[a]:
            found = readers.get((place, k, self.before.nodes[reader].does))
            if found:
                yield reader, found.pop(0)

    def _overlapping(self) -> None:
        """Pair what comes from the same source operators in part: a kernel and what it was welded
        into.
        """
        before, after = self._left()
        of: dict[str, list[Node]] = defaultdict(list)
        for node in after:
            for op in node.binding.origin:
                of[op].append(node)
        found: dict[tuple[int, int], tuple[float, float, int, int]] = {}
        for node in before:
            for op in node.binding.origin:
                for other in of.get(op, ())[:FEW]:
                    if what(node) in CALLS and what(other) in CALLS:
                        score = _overlap(node, other)
                        found[node.at, other.at] = (*score, -node.at, -other.at)
        for a, b in sorted(found, key=lambda pair: found[pair], reverse=True):
            if a not in self.of_before and b not in self.of_after:
                self.take(a, b)

    def _of_the_same(self) -> None:
        """Pair what is of one kind, reads the same and does something else with it."""

        def mine(node: Node) -> Hashable:
            return (what(node), tuple(self.same_source(s) for s in node.sources))

        def theirs(node: Node) -> Hashable:
            return (what(node), node.sources)

        before, after = self._left()
        if before and after:
            self._alike(
                lambda n: mine(n) if n.sources else None, lambda n: theirs(n) if n.sources else None
            )

    def _within(self) -> dict[int, int]:
        """What has no pair in the second program, by the one kernel there that all its source
        operators are in: it was welded into that.
        """
        of: dict[str, set[int]] = defaultdict(set)
        for node in self.after.nodes:
            if isinstance(node.binding.expr, KernelCall):
                for op in node.binding.origin:
                    of[op].add(node.at)
        found = {}
        for node in self._left()[0]:
            every = [of[op] for op in node.binding.origin]
            homes = set.intersection(*every) if every else set[int]()
            if len(homes) == 1:
                found[node.at] = homes.pop()
        return found

    def _results(self) -> Iterator[tuple[Source, Source]]:
        """Of what was welded, the values that are read outside, each with the kernel's that is
        it.
        """
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
        every = (s for sources in self.before.outputs.values() for s in sources)
        return [(int(at), k) for kind, at, k in every if kind == "value"]

    def same_source(self, source: Source) -> Source | None:
        """The source in the second program that is this one of the first by a pair, if any."""
        kind, at, k = source
        if kind == "value":
            pair = self.of_before.get(int(at))
            return None if pair is None else ("value", pair, k)
        if kind == "input":
            other = self.functions.get(str(at))
            return None if other is None else ("input", other, k)
        return source

    def corresponds(self, a: Source, b: Source) -> bool:
        """Whether two sources give the same value: they are a pair, or they compute the same. What
        a body is given once and for all is what it is given.
        """
        a, b = _given(self.before, a), _given(self.after, b)
        if b in (self.same_source(a), self._results_of.get(a)):
            return True
        if a[0] != "value" or b[0] != "value" or a[2] != b[2]:
            return False
        return self._made[0][int(a[1])] == self._made[1][int(b[1])]


def _given(of: Listed, source: Source) -> Source:
    """A parameter of a body that one binding runs as what that gives it, where that is the same in
    each trip.
    """
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
    return _given(of, node.sources[len(node.sources) - fixed + k - first])


CALLS = frozenset({"operator", "kernel", "library call", "control flow"})


def what(node: Node) -> str:
    """What a binding is, in a word."""
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


def _by_origin(node: Node) -> Hashable:
    return (node.does, node.binding.origin) if node.binding.origin else None


def _by_kind(node: Node) -> Hashable:
    kind = "call" if what(node) in CALLS else what(node)
    return (kind, node.binding.origin) if node.binding.origin else None


def _overlap(a: Node, b: Node) -> tuple[float, float]:
    """How much of their origins two have together, and how much the first has to do."""
    one, other = a.binding.origin, b.binding.origin
    return len(one & other) / len(one | other), _reduced(a)


def _reduced(node: Node) -> float:
    expr = node.binding.expr
    kernel: Kernel | None = expr.kernel if isinstance(expr, KernelCall) else None
    return sum(len(c.reduce) for c in kernel.computes) if kernel else 0
