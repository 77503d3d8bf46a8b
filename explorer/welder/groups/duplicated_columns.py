"""A product whose readers take different columns of it is made in each of them, as far as that one
needs it: no column is made twice, and what they read need not be stored first.

The gates of an LSTM's cell are one product of four blocks of columns: three of them make the new
cell state, the fourth the new hidden state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from explorer.ir.calls import Var
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.column_blocks import blocks_read, split_columns
from explorer.ir.kernels.kernel_size import Size
from explorer.ir.kernels.rebase import Starts, at_first_rows, placed
from explorer.ir.shapes.dims import Dim
from explorer.welder.groups.groups import Facts, Group, Merge, Merged, merged, taken
from explorer.welder.groups.refusals import impossible, no_gain, too_large
from explorer.welder.model import form_of

Reader = tuple[Kernel, str]  # and what it calls the value
# Of each group its kernel, which of all values it is given, and how large it is.
Alike = tuple[tuple[Kernel, tuple[int, ...], int, Size], ...]


@dataclass(frozen=True, slots=True)
class Welded:
    """A reader with its part of the producer; `given`: which of all values its kernel is given."""

    kernel: Kernel
    given: tuple[int, ...]
    tensor: str


@dataclass(frozen=True, slots=True)
class Weighed:
    """What was said of groups, and what the readers come to where it is worth it."""

    verdict: Candidate[bool]
    welded: tuple[Welded, ...] = ()


def in_blocks(both: Merged, facts: Facts) -> Merged:
    """A merge with the columns of what is made inside as tensors of their own, where that takes
    less time by the model.
    """
    cut = split_columns(both.kernel)
    if cut == both.kernel or facts.price(cut, facts.env) >= facts.price(both.kernel, facts.env):
        return both
    return replace(both, kernel=cut)


def take_apart(readers: Sequence[Reader]) -> bool:
    """Whether no column of a value is read by two of the kernels."""
    found = [blocks_read(kernel, tensor) for kernel, tensor in readers]
    if not all(found):
        return False
    order = sorted(b for blocks in found for b in blocks or ())
    return all(a.end <= b.first for a, b in pairwise(order))


def spread(groups: Mapping[str, Group], facts: Facts) -> tuple[Group, ...]:
    """The groups in order; a product that several read by columns is in each of them where all
    together take less time than they do apart.
    """
    made, readers_of = dict(groups), dict[str, list[str]]()
    known: dict[Alike, Weighed] = {}
    for g in groups.values():
        for value in dict.fromkeys(a.name for a in g.args):
            readers_of.setdefault(value, []).append(g.name)
    for name in groups:
        readers = [made[n] for n in readers_of.get(name, ())]
        if len(readers) < 2 or not _could(made[name], readers, facts):
            continue
        verdict, found = _weighed(made[name], readers, facts, known)
        for old, new in zip(readers, found or readers, strict=True):
            made[old.name] = replace(new, steps=(*new.steps, verdict))
        if found is not None:
            del made[name]
    return tuple(made.values())


def _could(producer: Group, readers: Sequence[Group], facts: Facts) -> bool:
    form, name = form_of(producer.kernel), producer.name
    if form.contractions != 1 or form.reductions or form.parts > 1:
        return False
    if producer.kernel.updates or len(producer.kernel.outputs) > 1:
        return False
    if name in facts.results or name in facts.connect:
        return False
    if sum(g.uses[name] for g in readers) != facts.uses[name]:
        return False
    return all(form_of(g.kernel).is_map for g in readers) and take_apart(
        [(g.kernel, g.kernel.inputs[[a.name for a in g.args].index(name)]) for g in readers]
    )


def _weighed(
    producer: Group, readers: Sequence[Group], facts: Facts, known: dict[Alike, Weighed]
) -> tuple[Candidate[bool], list[Group] | None]:
    """The readers with their parts of the producer, where that is worth it: asked once of groups
    that are alike.
    """
    arg: Var = next(a for a in readers[0].args if a.name == producer.name)
    label = f"{producer.name} by columns into {', '.join(r.name for r in readers)}"
    groups, starts = _at_first_rows((producer, *readers), producer.name)
    values = {a.name: a for g in groups for a in g.args}
    alike = _alike(groups, values)
    if alike not in known:
        known[alike] = _tried(groups[0], groups[1:], arg, facts, [*values])
    verdict = replace(known[alike].verdict, label=label)
    if verdict.refused:
        return verdict, None
    given, found = tuple(values.values()), []
    for r, part in zip(readers, known[alike].welded, strict=True):
        args = tuple(given[n] for n in part.given)
        begin = zip(part.kernel.inputs, (starts.get(a.name) for a in args), strict=True)
        kernel = placed(part.kernel, {tensor: start for tensor, start in begin if start})
        both = Merged(kernel, args, part.tensor)
        found.append(taken(r, producer, arg, both, facts.device))
    return verdict, found


def _at_first_rows(groups: Sequence[Group], inside: str) -> tuple[Sequence[Group], Starts]:
    """The groups as if each read the first row of a value of which it reads one row, and by value
    where that row is; as they are where two of them read different rows of one value.
    """
    starts: dict[str, tuple[Dim, ...]] = {}
    found = []
    for g in groups:
        names = dict(zip(g.kernel.inputs, (a.name for a in g.args), strict=True))
        kept = frozenset(t for t, value in names.items() if value == inside)
        kernel, begin = at_first_rows(g.kernel, kept)
        for tensor, value in names.items():
            start = begin.get(tensor, ())
            if starts.setdefault(value, start) != start:
                return groups, {}
        found.append(replace(g, kernel=kernel))
    return found, starts


def _alike(groups: Sequence[Group], values: Iterable[str]) -> Alike:
    """What is the same of groups that come to the same."""
    numbers = {value: n for n, value in enumerate(values)}
    return tuple(
        (g.kernel, tuple(numbers[a.name] for a in g.args), len(g.origins), g.size) for g in groups
    )


def _tried(
    producer: Group, readers: Sequence[Group], arg: Var, facts: Facts, values: list[str]
) -> Weighed:
    """What the readers come to with their parts of the producer."""
    welded = []
    for r in readers:
        both = merged(r, producer, arg, facts.env)
        both = replace(both, kernel=split_columns(both.kernel))
        merge = Merge(producer.kernel, r.kernel, both.tensor, both.kernel)
        why = too_large(producer.size, r.size, 0) or impossible(merge)
        if why is not None:
            return Weighed(Candidate("", False, refused=why.words, why=why))
        given = tuple(values.index(a.name) for a in both.args)
        welded.append(Welded(both.kernel, given, both.tensor))
    price, env = facts.price, facts.env
    apart = price(producer.kernel, env) + sum(price(r.kernel, env) for r in readers)
    together = sum(price(w.kernel, env) for w in welded)
    terms = (("apart", -apart), ("welded", together), ("barrier", -facts.device.barrier_us))
    gain = sum(us for _, us in terms)
    if gain >= 0:
        why = no_gain(gain, apart)
        return Weighed(Candidate("", False, terms, why.words, why))
    return Weighed(Candidate("", True, terms), tuple(welded))
