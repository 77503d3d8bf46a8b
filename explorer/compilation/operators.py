"""The source operators of a model, where each went, and the one name that a reader meets of each
and of each kernel.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from explorer.ir.calls import Branch, FunctionCall, Gradient, KernelCall, LibraryCall, Loop
from explorer.ir.program import Binding, Program, SourceOp
from explorer.ir.stage import Stage
from explorer.ops import family

CALLS = (KernelCall, LibraryCall, Branch, Loop, FunctionCall, Gradient)
MADE_UP = re.compile(r"n(\d+(?:_\d+)?)")  # by the frontend, where the file has no name
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


_WEIGHT = ("conv", "matmul", "reduction", "control flow", "library call")


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
    """The name of each call that a reader meets, by its binding: that of its heaviest operator. Of
    several with the same, the first one that computes has it, and the others a number behind it.
    """
    order = {o.name: i for i, o in enumerate(known)}
    calls = [b for _, b in program.bindings() if is_call(b)]
    calls.sort(key=lambda b: family(b) == "layout")
    found: dict[str, str] = {}
    taken: Counter[str] = Counter()
    for b in calls:
        first = head(known[i] for i in sorted(order[o] for o in b.origin if o in order))
        label = first.label if first else b.name
        taken[label] += 1
        found[b.name] = f"{label} ({taken[label]})" if taken[label] > 1 else label
    return found


def value_labels(known: Sequence[Operator], program: Program) -> Mapping[str, str]:
    """What each value of a program is called by a reader: as the heaviest of the source operators
    that make it. Values of which nothing is known have no entry.
    """
    place = {o.name: i for i, o in enumerate(known)}
    found: dict[str, str] = {}
    for _, b in program.bindings():
        first = head(known[i] for i in sorted(place[o] for o in b.origin if o in place))
        if first is not None:
            found |= {v.name: first.label for v in b.vars}
    return found


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
    those before as tell it from all others; its kind and number where the file has no name.
    """
    ends = {s.name: tuple(_ends(s)) for s in sources}
    count = Counter(end for found in ends.values() for end in found)
    return {
        name: next((end for end in found if count[end] == 1), name) for name, found in ends.items()
    }


def _ends(source: SourceOp) -> Iterator[str]:
    """Names for an operator, shorter ones first."""
    made_up = MADE_UP.fullmatch(source.name)
    if made_up:
        yield f"{source.op.replace('Normalization', 'Norm')} {made_up[1]}"
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
