"""The rows of a difference, from the pairs."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from explorer.differences.listed import Listed, Node, Source, listed, numbered
from explorer.differences.loops import Nest, nests
from explorer.differences.loops import paired as paired_loops
from explorer.differences.model import Change, Difference, Kind, Place
from explorer.differences.pairing import Pairs, what
from explorer.differences.words import expr_words, loop_words
from explorer.ir.calls import KernelCall
from explorer.ir.kernels.nameless import kernel_text, loop_text
from explorer.ir.program import Binding, Program

Label = Callable[[Binding], str]


def difference(
    before: Any, after: Any, *, label: Label = lambda binding: binding.name
) -> Difference:
    """What two programs have different, by structure and not by line: the operators, kernels and
    loops that were added, removed, changed or moved. Values that only have another name are no
    difference.

    Each is a program, or a compilation, whose last program is meant: `c.snapshots` has the programs
    before and after each step. `label` is what the words of a difference call a binding.
    """
    first, second = (getattr(x, "program", x) for x in (before, after))
    return _of_programs(first, second, label)


def _of_programs(before: Program, after: Program, label: Label) -> Difference:
    if before is after:
        return Difference((), sum(1 for _ in before.bindings()), 0)
    constants = numbered(before, after)
    pairs = Pairs(listed(before, constants[0]), listed(after, constants[1]))
    return _Rows(pairs, label).all()


class _Rows:
    def __init__(self, pairs: Pairs, label: Label) -> None:
        self.label = label
        self.pairs, self.before, self.after = pairs, pairs.before, pairs.after
        self.out_of_order = set(_moved(pairs))
        self.words = {a: self._words(a, b) for a, b in pairs.of_before.items()}

    def all(self) -> Difference:
        """Every row at its place in the second program; what went stands behind what stood before
        it.
        """
        found: dict[int, list[Change]] = defaultdict(list)
        loops, moved = self._loops()
        last = -1
        for node in self.before.nodes:
            mate = self.pairs.of_before.get(node.at)
            if mate is not None:
                last = mate
                continue
            words = self._where(node.at, moved[node.at])
            row = Change("removed", what(node), _place(node), None, words)
            found[last] += [row, *loops[0][node.at]]
        for node in self.after.nodes:
            found[node.at][:0] = [*self._row(node), *loops[1][node.at]]
        found[len(self.after.nodes)] += self._outputs()
        rows = tuple(row for at in sorted(found) for row in found[at])
        same = [(a, b) for a, b in self.pairs.of_before.items() if not self._differs(a)]
        names = sum(_name(self.before, a) != _name(self.after, b) for a, b in same)
        return Difference(rows, len(same), names)

    def _where(self, a: int, moved: Sequence[str]) -> tuple[str, ...]:
        """Where that is now which has no pair."""
        if a in self.pairs.within:
            return (f"now part of {self.label(self.after.nodes[self.pairs.within[a]].binding)}",)
        return (f"its loops are now in {', '.join(moved)}",) if moved else ()

    def _differs(self, a: int) -> bool:
        return bool(self.words[a]) or a in self.out_of_order

    def _row(self, node: Node) -> Iterator[Change]:
        mate = self.pairs.of_after.get(node.at)
        if mate is None:
            yield Change("added", what(node), None, _place(node))
        elif self._differs(mate):
            old = self.before.nodes[mate]
            moved = self._moved_words(old, node) if mate in self.out_of_order else ()
            kind: Kind = "changed" if self.words[mate] else "moved"
            words = (*self.words[mate], *moved)
            yield Change(kind, what(node), _place(old), _place(node), words)

    def _moved_words(self, old: Node, new: Node) -> tuple[str, ...]:
        if self.pairs.functions.get(old.function.name) == new.function.name:
            return ("stands elsewhere",)
        one, other = (self._owner(x, n) for x, n in ((self.before, old), (self.after, new)))
        return (f"moved from {one} to {other}",)

    def _words(self, a: int, b: int) -> tuple[str, ...]:
        """What is different of a pair."""
        old, new = self.before.nodes[a], self.after.nodes[b]
        found = [] if old.does == new.does else list(expr_words(old.binding, new.binding))
        if len(old.sources) != len(new.sources):
            found.append(f"reads {len(new.sources)} values, not {len(old.sources)}")
            return tuple(found)
        for place, (one, other) in enumerate(zip(old.sources, new.sources)):
            if not self.pairs.corresponds(one, other):
                found.append(self._read(one, other, place + 1))
        return tuple(found)

    def _read(self, one: Source, other: Source, place: int) -> str:
        if one[0] == other[0] == "constant":
            return f"reads another constant (number {place})"
        old, new = self._source(self.before, one), self._source(self.after, other)
        return f"reads {new} in place of {old} (number {place})"

    def _loops(self) -> tuple[tuple[dict[int, list[Change]], ...], dict[int, list[str]]]:
        """The rows of loops by the binding that calls their kernel, before and after; and of each
        kernel that went, the kernels that have its loops now.
        """
        old = [n for n in self.before.nodes if self._looked_at(n.at)]
        new = [
            n
            for n in self.after.nodes
            if n.at not in self.pairs.of_after or self._looked_at(self.pairs.of_after[n.at])
        ]
        first, second = nests(old), nests(new)
        pairs = paired_loops(first, second, self.pairs.of_before)
        rows: tuple[dict[int, list[Change]], ...] = (defaultdict(list), defaultdict(list))
        moved: dict[int, list[str]] = defaultdict(list)
        gone = {n.number for n in first} - {a.number for a, _ in pairs}
        come = {b.number: a for a, b in pairs}
        for nest in first:
            if nest.number in gone and nest.node.at in self.pairs.of_before:
                row = Change("removed", "loop", _place(nest.node, nest), None)
                rows[1][self.pairs.of_before[nest.node.at]].append(row)
        for nest in second:
            mate = come.get(nest.number)
            known = nest.node.at in self.pairs.of_after
            if mate is None:
                if known:
                    row = Change("added", "loop", None, _place(nest.node, nest))
                    rows[1][nest.node.at].append(row)
                continue
            rows[1][nest.node.at] += self._loop(mate, nest)
            name = self.label(nest.node.binding)
            if mate.node.at not in self.pairs.of_before and name not in moved[mate.node.at]:
                moved[mate.node.at].append(name)
        return rows, moved

    def _loop(self, old: Nest, new: Nest) -> Iterator[Change]:
        here = self.pairs.of_before.get(old.node.at) == new.node.at
        same = loop_text(old.loop)[0] == loop_text(new.loop)[0]
        words = () if same else tuple(loop_words(old.loop, new.loop))
        if not here:
            words += (f"from kernel {self.label(old.node.binding)}",)
        if not (here and same):
            kind: Kind = "moved" if same else "changed"
            yield Change(kind, "loop", _place(old.node, old), _place(new.node, new), words)

    def _looked_at(self, a: int) -> bool:
        """Whether the kernel of a binding of the first program is another one than before."""
        b = self.pairs.of_before.get(a)
        if b is None:
            return True
        one, other = self.before.nodes[a].binding.expr, self.after.nodes[b].binding.expr
        if not isinstance(one, KernelCall) or not isinstance(other, KernelCall):
            return False
        return one.kernel is not other.kernel and kernel_text(one.kernel) != kernel_text(
            other.kernel
        )

    def _owner(self, of: Listed, node: Node) -> str:
        """The function that a binding is in, by who runs it."""
        if node.function.name == of.program.main.name:
            return "the main function"
        caller = of.callers.get(node.function.name)
        if caller is None:
            return node.function.name
        return f"a body of {self.label(of.nodes[caller].binding)}"

    def _source(self, of: Listed, source: Source) -> str:
        kind, at, k = source
        if kind == "value":
            binding = of.nodes[int(at)].binding
            return self.label(binding) if len(binding.vars) == 1 else binding.vars[k].name
        if kind == "input":
            return of.program.function(str(at)).params[k].name
        return "a constant" if kind == "constant" else str(at)

    def _outputs(self) -> Iterator[Change]:
        one, other = (x.outputs[x.program.main.name] for x in (self.before, self.after))
        names = self.after.program.main.output_names
        for k, (a, b) in enumerate(zip(one, other)):
            if not self.pairs.corresponds(a, b):
                said = f"{self._source(self.after, b)} in place of {self._source(self.before, a)}"
                name = names[k] if k < len(names) else f"number {k + 1}"
                yield Change("changed", "output", None, _end(self.after, b), (f"{name} is {said}",))


def _moved(pairs: Pairs) -> Iterator[int]:
    """The bindings that stand in another order or function: the fewest that explain the order."""
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for a, b in sorted(pairs.of_before.items()):
        old, new = pairs.before.nodes[a].function.name, pairs.after.nodes[b].function.name
        if pairs.functions.get(old) == new:
            rows[old].append((a, b))
        else:
            yield a
    for row in rows.values():
        kept = _longest_rising([b for _, b in row])
        yield from (a for n, (a, _) in enumerate(row) if n not in kept)


def _longest_rising(numbers: Sequence[int]) -> set[int]:
    """The positions of a longest rising part."""
    ends: list[int] = []
    at: list[int] = []
    before = [-1] * len(numbers)
    for n, value in enumerate(numbers):
        place = bisect_left(ends, value)
        ends[place : place + 1], at[place : place + 1] = [value], [n]
        before[n] = at[place - 1] if place else -1
    found, n = set(), at[-1] if at else -1
    while n >= 0:
        found.add(n)
        n = before[n]
    return found


def _place(node: Node, nest: Nest | None = None) -> Place:
    return Place(node.at, node.function.name, node.binding, nest.loop if nest else None)


def _name(of: Listed, at: int) -> str:
    return of.nodes[at].binding.name


def _end(of: Listed, source: Source) -> Place | None:
    return _place(of.nodes[int(source[1])]) if source[0] == "value" else None
