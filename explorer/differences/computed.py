"""Value numbering: equal numbers compute the same from the inputs, or are used alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from explorer.differences.listed import BindingNode, Listed, Source


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
