"""The source operators of a model, where each went, and the one name that a reader meets of each
and of each kernel.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

from explorer.errors import printable
from explorer.ir.calls import Branch, FunctionCall, Gradient, KernelCall, LibraryCall, Loop
from explorer.ir.program import Binding, Program, SourceOp
from explorer.ir.stage import Stage
from explorer.ops import family

CALLS = (KernelCall, LibraryCall, Branch, Loop, FunctionCall, Gradient)
MADE_UP = re.compile(r"n(\d+(?:_\d+)?)")  # by the frontend, where the file has no name
PYTHON = re.compile(r"[^:]+:(?P<line>\d+) (?P<does>[^ /]+)")  # a line of a traced function
PREFIX = "node_"  # that PyTorch's exporter gives every node


@dataclass(frozen=True, slots=True)
class Operator:
    """A source operator, and its `label`: what it is called wherever a reader meets it. `calls` are
    the bindings of the last program that compute it; `dropped` says why there is none.
    """

    name: str
    op: str
    label: str
    family: str
    calls: tuple[str, ...] = ()
    dropped: str = ""


def operators(source: Program, program: Program) -> tuple[Operator, ...]:
    """Every operator of the source, in its order, as the last program has it."""
    families, names = _families(source), labels(source.sources)
    calls = calls_by_operator(program)
    dropped = dict(program.dropped)
    why = "no kernel computes it" if has_kernels(program) else "no kernel is made yet"
    return tuple(
        Operator(
            s.name,
            s.op,
            names[s.name],
            families.get(s.name, "layout"),
            calls.get(s.name, ()),
            "" if calls.get(s.name) else dropped.get(s.name, why),
        )
        for s in source.sources
    )


def has_kernels(program: Program) -> bool:
    """Whether operators have become kernels: before that each of them stands for itself."""
    return program.stage >= Stage.LEGALIZED


def calls_by_operator(program: Program) -> dict[str, tuple[str, ...]]:
    """For each source operator, the names of the calls that compute it; those that only move its
    data stand last.
    """
    found: dict[str, list[tuple[bool, str]]] = {}
    for _, binding in program.bindings():
        if is_call(binding):
            moves = family(binding) == "layout"
            for name in binding.origin:
                found.setdefault(name, []).append((moves, binding.name))
    return {
        name: tuple(call for _, call in sorted(calls, key=lambda c: c[0]))
        for name, calls in found.items()
    }


_WEIGHT = ("conv", "matmul", "reduction", "control flow", "library call", "elementwise")


def head(ops: Iterable[Operator]) -> Operator | None:
    """The operator that a call is named after: the first of the heaviest family."""
    return min(
        ops, key=lambda o: _WEIGHT.index(o.family) if o.family in _WEIGHT else 9, default=None
    )


def label_of(known: Iterable[Operator], ops: Collection[str]) -> str:
    """The name of what computes these source operators: that of the heaviest of them; "" where none
    of them is known.
    """
    found = head(o for o in known if o.name in ops)
    return found.label if found else ""


def call_labels(known: Sequence[Operator], program: Program) -> Mapping[str, str]:
    """The name of each call that a reader meets, by its binding: see `told_apart`."""
    calls = [b for _, b in program.bindings() if is_call(b)]
    calls.sort(key=lambda b: family(b) == "layout")
    return told_apart(known, {b.name: (b.origin, _does(b)) for b in calls})


def told_apart(
    known: Sequence[Operator], computed: Mapping[str, tuple[Collection[str], str]]
) -> dict[str, str]:
    """A name for each of what is computed, of its source operators and a word for what it does:
    that of its heaviest operator. Of several with the same, those of more operators say how many
    more, as `matmul + 3`, then what they do, as `Conv 7 pad`; else a number stands behind it.
    """
    order = {o.name: i for i, o in enumerate(known)}
    ways: dict[str, tuple[str, ...]] = {}
    for key, (ops, does) in computed.items():
        mine = [known[i] for i in sorted(order[o] for o in ops if o in order)]
        first = head(mine)
        label = first.label if first else key
        more = f"{label} + {len(mine) - 1}" if len(mine) > 1 else label
        ways[key] = (label, more, f"{more} {does}".rstrip())
    uses = [Counter(way[n] for way in ways.values()) for n in range(3)]
    found: dict[str, str] = {}
    taken: set[str] = set()
    for key, way in ways.items():
        alone = (name for n, name in enumerate(way) if uses[n][name] == 1)
        numbered = (f"{way[0]} ({n})" if n > 1 else way[0] for n in count(1))
        found[key] = next(name for name in chain(alone, numbered) if name not in taken)
        taken.add(found[key])
    return found


def _does(binding: Binding) -> str:
    return binding.expr.kernel.name if isinstance(binding.expr, KernelCall) else ""


def value_labels(known: Sequence[Operator], program: Program) -> Mapping[str, str]:
    """What each value of a program is called by a reader: as the heaviest of the source operators
    that make it, and no two bindings alike. Values of which nothing is known have no entry.
    """
    mine = {o.name for o in known}
    bindings = [b for _, b in program.bindings() if b.origin & mine]
    bindings.sort(key=lambda b: family(b) == "layout")
    called = told_apart(known, {b.name: (b.origin, _does(b)) for b in bindings})
    return {v.name: called[b.name] for b in bindings for v in b.vars}


def in_words(text: str, names: Mapping[str, str]) -> str:
    """A sentence with values under other names, as `r4 into r7: join r5 too`."""
    return re.sub(r"[^\s,:]+", lambda word: names.get(word[0], word[0]), text)


def call_family(binding: Binding, ops: Iterable[Operator]) -> str:
    """The family of a call: its heaviest operator's, unless it only moves data or leaves us."""
    kind, first = family(binding), head(sorted(ops, key=lambda o: (o.family == "layout", o.name)))
    return kind if kind in ("layout", "control flow", "library call") or not first else first.family


def is_call(binding: Binding) -> bool:
    """Whether something runs for this binding: a kernel, a library, a branch or a loop."""
    return isinstance(binding.expr, CALLS)


def labels(sources: Sequence[SourceOp]) -> dict[str, str]:
    """The name of each operator that a reader meets: the last part of its path, and as many of
    those before as tell it from all others; of a line of Python what it calls, as `add`, with the
    line where others call that too: `add:53`; kind and number where the file has no name.
    """
    ends = {s.name: tuple(_ends(s)) for s in sources}
    uses = Counter(end for found in ends.values() for end in found)
    return {
        name: printable(next((end for end in found if uses[end] == 1), name))
        for name, found in ends.items()
    }


def _ends(source: SourceOp) -> Iterator[str]:
    """Names for an operator, shorter ones first."""
    made_up = MADE_UP.fullmatch(source.name)
    if made_up:
        yield f"{source.op.replace('Normalization', 'Norm')} {made_up[1]}"
        return
    line = PYTHON.fullmatch(source.name)
    if line:
        yield from (line["does"], f"{line['does']}:{line['line']}", source.name)
        return
    parts = source.name.strip("/").split("/")
    parts[-1] = parts[-1].removeprefix(PREFIX) or source.op
    for n in range(1, len(parts) + 1):
        yield "/".join(parts[-n:])


def _families(source: Program) -> dict[str, str]:
    """The family of each operator: that of the binding that comes from the fewest others."""
    best: dict[str, tuple[int, str]] = {}
    for _, binding in source.bindings():
        kind = family(binding)
        for name in binding.origin:
            if name not in best or len(binding.origin) < best[name][0]:
                best[name] = (len(binding.origin), kind)
    return {name: kind for name, (_, kind) in best.items()}
