"""Source operators of a model, the calls that compute them, and the labels that readers see."""

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
    """A source operator and its `label`, the name that readers see everywhere.

    `calls` are the bindings of the last program that compute it; `dropped` says why there is none.
    """

    name: str
    op: str
    label: str
    family: str
    calls: tuple[str, ...] = ()
    dropped: str = ""


def operators(source: Program, program: Program) -> tuple[Operator, ...]:
    """Return every operator of the source in order, with the calls of the last program."""
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
    """Return True if operators have become kernels."""
    return program.stage >= Stage.LEGALIZED


def calls_by_operator(program: Program) -> dict[str, tuple[str, ...]]:
    """Return the calls that compute each source operator, those that only move data last."""
    marked_calls: dict[str, list[tuple[bool, str]]] = {}
    for _, binding in program.bindings():
        if is_call(binding):
            moves = family(binding) == "layout"
            for name in binding.origin:
                marked_calls.setdefault(name, []).append((moves, binding.name))
    return {
        name: tuple(call for _, call in sorted(calls, key=lambda c: c[0]))
        for name, calls in marked_calls.items()
    }


_WEIGHT = ("conv", "matmul", "reduction", "control flow", "library call", "elementwise")


def head(ops: Iterable[Operator]) -> Operator | None:
    """Return the operator that a call is named after: the first of the heaviest family."""
    return min(
        ops, key=lambda o: _WEIGHT.index(o.family) if o.family in _WEIGHT else 9, default=None
    )


def label_of(operators: Iterable[Operator], ops: Collection[str]) -> str:
    """Return the label of a call that computes these source operators, or "" if none is known."""
    heaviest = head(o for o in operators if o.name in ops)
    return heaviest.label if heaviest else ""


def call_labels(operators: Sequence[Operator], program: Program) -> Mapping[str, str]:
    """Return the label of each call by its binding: see `distinct_labels`."""
    calls = [b for _, b in program.bindings() if is_call(b)]
    calls.sort(key=lambda b: family(b) == "layout")
    return distinct_labels(operators, {b.name: (b.origin, _does(b)) for b in calls})


def distinct_labels(
    operators: Sequence[Operator], computed: Mapping[str, tuple[Collection[str], str]]
) -> dict[str, str]:
    """Return distinct labels for computed values, given their source operators and a word each.

    A label is that of the heaviest operator. Equal labels are made distinct first by the number of
    further operators, as in `matmul + 3`, then by the word, as in `Conv 7 pad`, then by a number.
    """
    order = {o.name: i for i, o in enumerate(operators)}
    options: dict[str, tuple[str, ...]] = {}
    for key, (ops, does) in computed.items():
        mine = [operators[i] for i in sorted(order[o] for o in ops if o in order)]
        first = head(mine)
        label = first.label if first else key
        more = f"{label} + {len(mine) - 1}" if len(mine) > 1 else label
        options[key] = (label, more, f"{more} {does}".rstrip())
    uses = [Counter(choices[n] for choices in options.values()) for n in range(3)]
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for key, choices in options.items():
        alone = (name for n, name in enumerate(choices) if uses[n][name] == 1)
        numbered = (f"{choices[0]} ({n})" if n > 1 else choices[0] for n in count(1))
        labels[key] = next(name for name in chain(alone, numbered) if name not in taken)
        taken.add(labels[key])
    return labels


def _does(binding: Binding) -> str:
    """Return the name of the kernel that a binding calls, or ""."""
    return binding.expr.kernel.name if isinstance(binding.expr, KernelCall) else ""


def value_labels(known_operators: Sequence[Operator], program: Program) -> Mapping[str, str]:
    """Return a distinct label for each value: that of the heaviest source operator that makes it.

    Values without known operators have no entry.
    """
    mine = {o.name for o in known_operators}
    bindings = [b for _, b in program.bindings() if b.origin & mine]
    bindings.sort(key=lambda b: family(b) == "layout")
    called = distinct_labels(known_operators, {b.name: (b.origin, _does(b)) for b in bindings})
    return {v.name: called[b.name] for b in bindings for v in b.vars}


def in_words(text: str, names: Mapping[str, str]) -> str:
    """Replace the values in a sentence, such as `r4 into r7: join r5 too`, by their labels."""
    return re.sub(r"[^\s,:]+", lambda word: names.get(word[0], word[0]), text)


def call_family(binding: Binding, ops: Iterable[Operator]) -> str:
    """Return the family of a call: its heaviest operator's, unless it moves data or calls out."""
    kind, first = family(binding), head(sorted(ops, key=lambda o: (o.family == "layout", o.name)))
    return kind if kind in ("layout", "control flow", "library call") or not first else first.family


def is_call(binding: Binding) -> bool:
    """Return True if something runs for this binding: a kernel, a library, a branch or a loop."""
    return isinstance(binding.expr, CALLS)


def labels(sources: Sequence[SourceOp]) -> dict[str, str]:
    """Return the label of each operator.

    It is the last part of its path, with as many parts before as make it unique. For a line of
    Python it is what the line calls, as `add`, or `add:53` if other lines call that too. Where the
    file has no name it is kind and number.
    """
    ends = {s.name: tuple(_ends(s)) for s in sources}
    uses = Counter(end for choices in ends.values() for end in choices)
    return {
        name: printable(next((end for end in choices if uses[end] == 1), name))
        for name, choices in ends.items()
    }


def _ends(source: SourceOp) -> Iterator[str]:
    """Yield labels for an operator, shorter ones first."""
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
    """Return the family of each operator: that of the binding with the fewest origins."""
    best: dict[str, tuple[int, str]] = {}
    for _, binding in source.bindings():
        kind = family(binding)
        for name in binding.origin:
            if name not in best or len(binding.origin) < best[name][0]:
                best[name] = (len(binding.origin), kind)
    return {name: kind for name, (_, kind) in best.items()}
