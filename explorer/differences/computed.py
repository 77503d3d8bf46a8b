"""Numbers for bindings: equal numbers compute the same of the inputs, or are read in the same way
up to the outputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from explorer.differences.listed import Listed, Node, Source


class Made:
    """Of each binding a number that stands for all that it computes, from the inputs on."""

    def __init__(self, of: Listed, number: Callable[[Hashable], int]) -> None:
        self.of, self.number = of, number
        self.found: dict[int, int] = {}
        self.begun: set[str] = set()
        self.bodies: dict[str, int] = {}
        self.starts: dict[str, list[Node]] = defaultdict(list)
        for node in of.nodes:
            self.starts[node.function.name].append(node)

    def all(self) -> Sequence[int]:
        for function in self.of.program.functions:
            self._body(function.name)
        return [self.found[n.at] for n in self.of.nodes]

    def _body(self, name: str) -> int:
        """What a function computes of its parameters; a recursion is known by its name alone."""
        if name in self.bodies:
            return self.bodies[name]
        if name in self.begun:
            return self.number(("recursion", name))
        self.begun.add(name)
        for node in self.starts[name]:
            inner = tuple(self._body(f) for f in node.binding.calls)
            sources = tuple(map(self._source, node.sources))
            self.found[node.at] = self.number((node.does, sources, inner))
        outputs = tuple(map(self._source, self.of.outputs[name]))
        self.bodies[name] = self.number(("body", outputs))
        return self.bodies[name]

    def _source(self, source: Source) -> Hashable:
        kind, at, k = source
        if kind == "value":
            return (self.found.get(int(at), -1), k)
        if kind == "input":
            main = at == self.of.program.main.name
            return (kind, main, k)
        return source


class Read:
    """Of each binding a number that stands for all that is made of it, up to the outputs; None for
    one that nothing comes of.
    """

    def __init__(self, of: Listed, number: Callable[[Hashable], int]) -> None:
        self.of, self.number = of, number

    def all(self) -> Sequence[int | None]:
        main = self.of.program.main.name
        given: dict[int, list[Hashable]] = defaultdict(list)
        for name, sources in self.of.outputs.items():
            for place, (kind, at, k) in enumerate(sources):
                if kind == "value":
                    given[int(at)].append(("output", name == main, place, k))
        found: list[int | None] = [None] * len(self.of.nodes)
        for node in reversed(self.of.nodes):
            readers: list[Hashable] = list(given.get(node.at, ()))
            for reader, place, k in self.of.readers[node.at]:
                if (mine := found[reader]) is not None:
                    readers.append(("reader", mine, place, k))
            if readers:
                key = (node.does, tuple(sorted(readers, key=repr)))
                found[node.at] = self.number(key)
        return found
