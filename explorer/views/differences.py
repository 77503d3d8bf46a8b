"""Structural difference of two programs: what was added, removed, changed and moved, in words.

Names of values and lines of text do not matter. A binding is paired with one that computes the same
from the same inputs, then with one that is used alike, then with one from the same source
operators. A pair that is equal is no difference. Rows are made from pairs of bindings and of loop
nests.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from explorer.ir.calls import Attrs, Expr, FunctionCall, KernelCall, LibraryCall, OpCall
from explorer.ir.decisions.tiling import Tiling
from explorer.ir.kernel import Compute
from explorer.ir.kernels.canonical import kernel_text, loop_text
from explorer.ir.program import Binding, Program
from explorer.printed import Printed
from explorer.views.binding_list import BindingNode, Listed, Source, listed, numbered, tiling_text
from explorer.views.binding_pairs import Nest, Pairs, nests, paired_loops, what

Kind = Literal["added", "removed", "changed", "moved"]
KINDS: tuple[Kind, ...] = ("added", "removed", "changed", "moved")


@dataclass(frozen=True, slots=True)
class ChangePlace:
    """A binding in a function, or a loop nest in the kernel that a binding calls.

    `number` is the binding's position in its program.
    """

    number: int
    function: str
    binding: Binding
    loop: Compute | None = None

    @property
    def name(self) -> str:
        """The value that is made, or the loop's tensor."""
        return self.loop.out if self.loop is not None else self.binding.name

    @property
    def ops(self) -> frozenset[str]:
        """The source operators that it comes from."""
        return (self.loop.origin if self.loop is not None else None) or self.binding.origin


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    `what` is an "operator", a "kernel", a "loop" in a kernel, a "library call", "control flow", a
    "view", "shapes", or an "output". `words` describe the difference.
    """

    kind: Kind
    what: str
    before: ChangePlace | None
    after: ChangePlace | None
    words: tuple[str, ...] = ()

    @property
    def place(self) -> ChangePlace | None:
        """The place now, or before; None for an output that no binding makes."""
        return self.after or self.before

    @property
    def name(self) -> str:
        """The value that is made there, or the loop's tensor."""
        return self.place.name if self.place else ""

    @property
    def ops(self) -> frozenset[str]:
        """The source operators that it is about."""
        both = (self.before, self.after)
        return frozenset[str]().union(*(p.ops for p in both if p is not None))

    def __str__(self) -> str:
        """Return the row as one line."""
        text = f"{self.kind} {self.what} {self.name}".rstrip()
        return f"{text}: {'; '.join(self.words)}" if self.words else text


@dataclass(frozen=True, slots=True, repr=False)
class Difference(Printed):
    """All differences of two programs, in the order of the second.

    `same` counts equal bindings, `renamed` those of them with another name.
    """

    changes: tuple[Change, ...]
    same: int
    renamed: int

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of rows of each kind, loops included."""
        numbers = Counter(c.kind for c in self.changes)
        return {kind: numbers[kind] for kind in KINDS if numbers[kind]}

    def __bool__(self) -> bool:
        """Return True if there is a difference."""
        return bool(self.changes)

    def __str__(self) -> str:
        """Return a line for each row."""
        return "\n".join(map(str, self.changes)) or f"no difference in {self.same} bindings"


Label = Callable[[Binding], str]


def difference(
    before: Any, after: Any, *, label: Label = lambda binding: binding.name
) -> Difference:
    """Return what two programs have different, by structure and not by line.

    The rows are the operators, kernels and loops that were added, removed, changed or moved.
    Renamed values are no difference.

    Args:
        before: A program, or a compilation, which stands for its last program.
        after: Likewise. `c.snapshots` has the programs before and after each step.
        label: The name of a binding in the rows.
    """
    first, second = (getattr(x, "program", x) for x in (before, after))
    return _of_programs(first, second, label)


def _of_programs(before: Program, after: Program, label: Label) -> Difference:
    """Compare two programs."""
    if before is after:
        return Difference((), sum(1 for _ in before.bindings()), 0)
    constants = numbered(before, after)
    pairs = Pairs(listed(before, constants[0]), listed(after, constants[1]))
    return _Rows(pairs, label).all()


class _Rows:
    """Rows of a difference between two programs."""

    def __init__(self, pairs: Pairs, label: Label) -> None:
        """Prepare the words of every pair."""
        self.label = label
        self.pairs, self.before, self.after = pairs, pairs.before, pairs.after
        self.out_of_order = set(_moved(pairs))
        self.words = {a: self._words(a, b) for a, b in pairs.of_before.items()}

    def all(self) -> Difference:
        """Return every row at its place in the second program.

        A removed binding follows what preceded it.
        """
        rows_by_place: dict[int, list[Change]] = defaultdict(list)
        loops, moved = self._loops()
        last = -1
        for node in self.before.nodes:
            mate = self.pairs.of_before.get(node.at)
            if mate is not None:
                last = mate
                continue
            words = self._where(node.at, moved[node.at])
            row = Change("removed", what(node), _place(node), None, words)
            rows_by_place[last] += [row, *loops[0][node.at]]
        for node in self.after.nodes:
            rows_by_place[node.at][:0] = [*self._row(node), *loops[1][node.at]]
        rows_by_place[len(self.after.nodes)] += self._outputs()
        rows = tuple(row for at in sorted(rows_by_place) for row in rows_by_place[at])
        same = [(a, b) for a, b in self.pairs.of_before.items() if not self._differs(a)]
        names = sum(_name(self.before, a) != _name(self.after, b) for a, b in same)
        return Difference(rows, len(same), names)

    def _where(self, a: int, moved: Sequence[str]) -> tuple[str, ...]:
        """Return where an unpaired binding is now."""
        if a in self.pairs.within:
            return (f"now part of {self.label(self.after.nodes[self.pairs.within[a]].binding)}",)
        return (f"its loops are now in {', '.join(moved)}",) if moved else ()

    def _differs(self, a: int) -> bool:
        """Return True if a paired binding changed or moved."""
        return bool(self.words[a]) or a in self.out_of_order

    def _row(self, node: BindingNode) -> Iterator[Change]:
        """Yield the row of a binding of the second program, if it differs."""
        mate = self.pairs.of_after.get(node.at)
        if mate is None:
            yield Change("added", what(node), None, _place(node))
        elif self._differs(mate):
            old = self.before.nodes[mate]
            moved = self._moved_words(old, node) if mate in self.out_of_order else ()
            kind: Kind = "changed" if self.words[mate] else "moved"
            words = (*self.words[mate], *moved)
            yield Change(kind, what(node), _place(old), _place(node), words)

    def _moved_words(self, old: BindingNode, new: BindingNode) -> tuple[str, ...]:
        """Return how a binding moved."""
        if self.pairs.functions.get(old.function.name) == new.function.name:
            return ("stands elsewhere",)
        old_owner, new_owner = (
            self._owner(x, n) for x, n in ((self.before, old), (self.after, new))
        )
        return (f"moved from {old_owner} to {new_owner}",)

    def _words(self, a: int, b: int) -> tuple[str, ...]:
        """Return the differences within a pair."""
        old, new = self.before.nodes[a], self.after.nodes[b]
        words = [] if old.does == new.does else list(expr_words(old.binding, new.binding))
        if len(old.sources) != len(new.sources):
            words.append(f"reads {len(new.sources)} values, not {len(old.sources)}")
            return tuple(words)
        for place, (old_source, new_source) in enumerate(zip(old.sources, new.sources)):
            if not self.pairs.corresponds(old_source, new_source):
                words.append(self._read(old_source, new_source, place + 1))
        return tuple(words)

    def _read(self, old_source: Source, new_source: Source, place: int) -> str:
        """Describe a changed operand."""
        if old_source[0] == new_source[0] == "constant":
            return f"reads another constant (number {place})"
        old, new = self._source(self.before, old_source), self._source(self.after, new_source)
        return f"reads {new} in place of {old} (number {place})"

    def _loops(self) -> tuple[tuple[dict[int, list[Change]], ...], dict[int, list[str]]]:
        """Return the rows of loops by the binding that calls their kernel, before and after.

        The second result lists, for each removed kernel, the kernels that have its loops now.
        """
        old = [n for n in self.before.nodes if self._kernel_differs(n.at)]
        new = [
            n
            for n in self.after.nodes
            if n.at not in self.pairs.of_after or self._kernel_differs(self.pairs.of_after[n.at])
        ]
        first, second = nests(old), nests(new)
        pairs = paired_loops(first, second, self.pairs.of_before)
        rows: tuple[dict[int, list[Change]], ...] = (defaultdict(list), defaultdict(list))
        moved: dict[int, list[str]] = defaultdict(list)
        removed = {n.number for n in first} - {a.number for a, _ in pairs}
        paired_from = {b.number: a for a, b in pairs}
        for nest in first:
            if nest.number in removed and nest.node.at in self.pairs.of_before:
                row = Change("removed", "loop", _place(nest.node, nest), None)
                rows[1][self.pairs.of_before[nest.node.at]].append(row)
        for nest in second:
            mate = paired_from.get(nest.number)
            is_paired = nest.node.at in self.pairs.of_after
            if mate is None:
                if is_paired:
                    row = Change("added", "loop", None, _place(nest.node, nest))
                    rows[1][nest.node.at].append(row)
                continue
            rows[1][nest.node.at] += self._loop(mate, nest)
            name = self.label(nest.node.binding)
            if mate.node.at not in self.pairs.of_before and name not in moved[mate.node.at]:
                moved[mate.node.at].append(name)
        return rows, moved

    def _loop(self, old: Nest, new: Nest) -> Iterator[Change]:
        """Yield the row of a pair of loops, if it differs."""
        here = self.pairs.of_before.get(old.node.at) == new.node.at
        same = loop_text(old.loop)[0] == loop_text(new.loop)[0]
        words = () if same else tuple(loop_words(old.loop, new.loop))
        if not here:
            words += (f"from kernel {self.label(old.node.binding)}",)
        if not (here and same):
            kind: Kind = "moved" if same else "changed"
            yield Change(kind, "loop", _place(old.node, old), _place(new.node, new), words)

    def _kernel_differs(self, a: int) -> bool:
        """Return True if a binding of the first program calls another kernel now, or is gone."""
        b = self.pairs.of_before.get(a)
        if b is None:
            return True
        old, new = self.before.nodes[a].binding.expr, self.after.nodes[b].binding.expr
        if not isinstance(old, KernelCall) or not isinstance(new, KernelCall):
            return False
        return old.kernel is not new.kernel and kernel_text(old.kernel) != kernel_text(new.kernel)

    def _owner(self, of: Listed, node: BindingNode) -> str:
        """Return the function of a binding, named after its caller."""
        if node.function.name == of.program.main.name:
            return "the main function"
        caller = of.callers.get(node.function.name)
        if caller is None:
            return node.function.name
        return f"a body of {self.label(of.nodes[caller].binding)}"

    def _source(self, of: Listed, source: Source) -> str:
        """Return the name of a value's source."""
        kind, at, k = source
        if kind == "value":
            binding = of.nodes[int(at)].binding
            return self.label(binding) if len(binding.vars) == 1 else binding.vars[k].name
        if kind == "input":
            return of.program.function(str(at)).params[k].name
        return "a constant" if kind == "constant" else str(at)

    def _outputs(self) -> Iterator[Change]:
        """Yield the outputs that come from other values now."""
        old_outputs, new_outputs = (
            x.outputs[x.program.main.name] for x in (self.before, self.after)
        )
        names = self.after.program.main.output_names
        for k, (a, b) in enumerate(zip(old_outputs, new_outputs)):
            if not self.pairs.corresponds(a, b):
                text = f"{self._source(self.after, b)} in place of {self._source(self.before, a)}"
                name = names[k] if k < len(names) else f"number {k + 1}"
                yield Change("changed", "output", None, _end(self.after, b), (f"{name} is {text}",))


def _moved(pairs: Pairs) -> Iterator[int]:
    """Yield the smallest set of bindings whose move explains the new order."""
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for a, b in sorted(pairs.of_before.items()):
        old, new = pairs.before.nodes[a].function.name, pairs.after.nodes[b].function.name
        if pairs.functions.get(old) == new:
            rows[old].append((a, b))
        else:
            yield a
    for row in rows.values():
        in_order = _longest_rising([b for _, b in row])
        yield from (a for n, (a, _) in enumerate(row) if n not in in_order)


def _longest_rising(numbers: Sequence[int]) -> set[int]:
    """Return the positions of a longest increasing subsequence."""
    ends: list[int] = []
    at: list[int] = []
    before = [-1] * len(numbers)
    for n, value in enumerate(numbers):
        place = bisect_left(ends, value)
        ends[place : place + 1], at[place : place + 1] = [value], [n]
        before[n] = at[place - 1] if place else -1
    positions, n = set(), at[-1] if at else -1
    while n >= 0:
        positions.add(n)
        n = before[n]
    return positions


def _place(node: BindingNode, nest: Nest | None = None) -> ChangePlace:
    """Return the place of a binding or of a loop in its kernel."""
    return ChangePlace(node.at, node.function.name, node.binding, nest.loop if nest else None)


def _name(of: Listed, at: int) -> str:
    """Return the name of a binding."""
    return of.nodes[at].binding.name


def _end(of: Listed, source: Source) -> ChangePlace | None:
    """Return the place of an output's binding."""
    return _place(of.nodes[int(source[1])]) if source[0] == "value" else None


def expr_words(old: Binding, new: Binding) -> Iterator[str]:
    """Yield the differences in a binding's work and results."""
    a, b = old.expr, new.expr
    if _called(a) != _called(b):
        yield f"{_called(a)} → {_called(b)}"
    match a, b:
        case OpCall(_, _, first), OpCall(_, _, second):
            yield from _attributes(first, second)
        case LibraryCall(_, _, _, first), LibraryCall(_, _, _, second):
            yield from _attributes(first, second)
        case KernelCall(), KernelCall():
            yield from _kernels(a, b)
    types = tuple(
        "; ".join(str(v.type) for v in binding.vars) or "nothing" for binding in (old, new)
    )
    if types[0] != types[1]:
        yield f"{types[0]} → {types[1]}"


def _called(expr: Expr) -> str:
    """Return an expression's kind and name."""
    match expr:
        case OpCall(op):
            return f"operator {op}"
        case KernelCall():
            return "kernel"
        case LibraryCall(library, function):
            return f"library {library}.{function}"
        case FunctionCall():
            return "call"
    return type(expr).__name__.lower()


def _attributes(first: Attrs, second: Attrs) -> Iterator[str]:
    """Yield the attributes that differ."""
    old, new = dict(first), dict(second)
    for name in dict.fromkeys((*old, *new)):
        if repr(old.get(name)) != repr(new.get(name)):
            yield f"{name} {old.get(name)} → {new.get(name)}"


def _kernels(a: KernelCall, b: KernelCall) -> Iterator[str]:
    """Yield the differences between two kernel calls."""
    old_kernel, new_kernel = a.kernel, b.kernel
    if kernel_text(old_kernel) != kernel_text(new_kernel):
        if len(old_kernel.computes) == len(new_kernel.computes):
            yield "its loops changed"
        else:
            yield f"{len(old_kernel.computes)} → {len(new_kernel.computes)} loops"
    tilings = (a.tiling, b.tiling)
    has_blocks = any(t is not None and t.is_thread_block for t in tilings)
    for title, old, new in (
        ("thread block" if has_blocks else "tile", *tilings),
        ("efficient tile", a.efficient, b.efficient),
    ):
        if tiling_text(old_kernel, old) != tiling_text(new_kernel, new):
            yield f"{title} {_tile(old)} → {_tile(new)}"
    if (a.after is None) != (b.after is None):
        yield "waits for another value" if a.after is None else "waits no longer"


def _tile(tiling: Tiling | None) -> str:
    """Format a tiling."""
    if tiling is None or tiling.is_thread_block:
        return "none" if tiling is None else tiling.words
    tile = " ".join(f"{axis}={size}" for axis, size in tiling.tile) or "everything"
    packed = ", packed" if tiling.pack else ""
    return f"{tile} ({tiling.micro.rows}×{tiling.micro.columns} in registers{packed})"


def loop_words(old: Compute, new: Compute) -> Iterator[str]:
    """Yield the differences between two loop nests."""
    first, second = _extents(old), _extents(new)
    if first != second:
        yield f"over {first} → {second}"
    if old.combiner != new.combiner:
        yield f"{old.combiner or 'no sum'} → {new.combiner or 'no sum'}"
    reads = tuple(len(loop_text(c)[1]) for c in (old, new))
    if reads[0] != reads[1]:
        yield f"reads {reads[1]} tensors, not {reads[0]}"
    elif first == second and old.combiner == new.combiner:
        yield "computes something else, or of other elements"


def _extents(c: Compute) -> str:
    """Format the extents of a loop nest."""
    return " × ".join(str(a.extent) for a in (*c.axes, *c.reduce)) or "one element"
