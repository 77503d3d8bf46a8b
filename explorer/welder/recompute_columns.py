"""Recomputation of a product's columns in each reader that needs them.

If readers take different columns of a product, each computes its own columns. No column is computed
twice, and the product need not be stored. The gates of an LSTM's cell are one product of four
blocks of columns: three of them make the new cell state, the fourth the new hidden state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from explorer.ir.calls import Var
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.dims import Dim
from explorer.ir.kernel import Kernel, Size
from explorer.ir.kernels.column_blocks import blocks_read, split_columns
from explorer.ir.kernels.rebase import Starts, at_first_rows, placed
from explorer.welder.groups import Facts, Group, Merge, Merged, absorb, merge_kernels
from explorer.welder.model import form_of
from explorer.welder.refusals import illegal_merge, no_gain, size_refusal

Reader = tuple[Kernel, str]  # and its tensor for the value
# Of each group its kernel, the numbers of its arguments, its origins and its size.
Alike = tuple[tuple[Kernel, tuple[int, ...], int, Size], ...]


@dataclass(frozen=True, slots=True)
class Welded:
    """A reader fused with its part of the producer; `value_numbers` are those of its arguments."""

    kernel: Kernel
    value_numbers: tuple[int, ...]
    tensor: str


@dataclass(frozen=True, slots=True)
class Weighed:
    """The verdict on groups, and the fused readers if it is worth it."""

    verdict: Candidate[bool]
    welded: tuple[Welded, ...] = ()


def in_blocks(both: Merged, facts: Facts) -> Merged:
    """Split the columns of internal tensors of a merge if that takes less time by the model."""
    cut = split_columns(both.kernel)
    if cut == both.kernel or facts.price(cut, facts.env) >= facts.price(both.kernel, facts.env):
        return both
    return replace(both, kernel=cut)


def read_disjoint_columns(readers: Sequence[Reader]) -> bool:
    """Return True if no column of a value is read by two of the kernels."""
    blocks_of_readers = [blocks_read(kernel, tensor) for kernel, tensor in readers]
    if not all(blocks_of_readers):
        return False
    order = sorted(b for blocks in blocks_of_readers for b in blocks or ())
    return all(a.end <= b.first for a, b in pairwise(order))


def recompute_columns(groups: Mapping[str, Group], facts: Facts) -> tuple[Group, ...]:
    """Return the groups in order, with products fused into all their readers where that gains.

    Each of the readers takes different columns of the product.
    """
    result, readers_of = dict(groups), dict[str, list[str]]()
    verdicts: dict[Alike, Weighed] = {}
    for g in groups.values():
        for value in dict.fromkeys(a.name for a in g.args):
            readers_of.setdefault(value, []).append(g.name)
    for name in groups:
        readers = [result[n] for n in readers_of.get(name, ())]
        if len(readers) < 2 or not _is_candidate(result[name], readers, facts):
            continue
        verdict, fused_readers = _weigh(result[name], readers, facts, verdicts)
        for old, new in zip(readers, fused_readers or readers, strict=True):
            result[old.name] = replace(new, steps=(*new.steps, verdict))
        if fused_readers is not None:
            del result[name]
    return tuple(result.values())


def _is_candidate(producer: Group, readers: Sequence[Group], facts: Facts) -> bool:
    form, name = form_of(producer.kernel), producer.name
    if form.contractions != 1 or form.reductions or form.parts > 1:
        return False
    if producer.kernel.updates or len(producer.kernel.outputs) > 1:
        return False
    if name in facts.results or name in facts.connect:
        return False
    if sum(g.uses[name] for g in readers) != facts.uses[name]:
        return False
    return all(form_of(g.kernel).is_map for g in readers) and read_disjoint_columns(
        [(g.kernel, g.kernel.inputs[[a.name for a in g.args].index(name)]) for g in readers]
    )


def _weigh(
    producer: Group, readers: Sequence[Group], facts: Facts, verdicts: dict[Alike, Weighed]
) -> tuple[Candidate[bool], list[Group] | None]:
    """Return the readers fused with their parts of the producer, if it is worth it.

    Groups that are alike are weighed once.
    """
    arg: Var = next(a for a in readers[0].args if a.name == producer.name)
    label = f"{producer.name} by columns into {', '.join(r.name for r in readers)}"
    groups, starts = _at_first_rows((producer, *readers), producer.name)
    values = {a.name: a for g in groups for a in g.args}
    alike = _key(groups, values)
    if alike not in verdicts:
        verdicts[alike] = _try_fusing(groups[0], groups[1:], arg, facts, [*values])
    verdict = replace(verdicts[alike].verdict, label=label)
    if verdict.refused:
        return verdict, None
    values_in_order, fused = tuple(values.values()), []
    for r, part in zip(readers, verdicts[alike].welded, strict=True):
        args = tuple(values_in_order[n] for n in part.value_numbers)
        begin = zip(part.kernel.inputs, (starts.get(a.name) for a in args), strict=True)
        kernel = placed(part.kernel, {tensor: start for tensor, start in begin if start})
        both = Merged(kernel, args, part.tensor)
        fused.append(absorb(r, producer, arg, both, facts.device))
    return verdict, fused


def _at_first_rows(groups: Sequence[Group], inside: str) -> tuple[Sequence[Group], Starts]:
    """Move each value of which a group reads one row to its first row; also return the rows.

    Groups are unchanged if two of them read different rows of one value.
    """
    starts: dict[str, tuple[Dim, ...]] = {}
    moved = []
    for g in groups:
        names = dict(zip(g.kernel.inputs, (a.name for a in g.args), strict=True))
        fixed = frozenset(t for t, value in names.items() if value == inside)
        kernel, begin = at_first_rows(g.kernel, fixed)
        for tensor, value in names.items():
            start = begin.get(tensor, ())
            if starts.setdefault(value, start) != start:
                return groups, {}
        moved.append(replace(g, kernel=kernel))
    return moved, starts


def _key(groups: Sequence[Group], values: Iterable[str]) -> Alike:
    """Return a key that is equal for groups with equal verdicts."""
    numbers = {value: n for n, value in enumerate(values)}
    return tuple(
        (g.kernel, tuple(numbers[a.name] for a in g.args), len(g.origins), g.size) for g in groups
    )


def _try_fusing(
    producer: Group, readers: Sequence[Group], arg: Var, facts: Facts, values: list[str]
) -> Weighed:
    """Weigh the readers fused with their parts of the producer."""
    welded = []
    for r in readers:
        both = merge_kernels(r, producer, arg, facts.env)
        both = replace(both, kernel=split_columns(both.kernel))
        merge = Merge(producer.kernel, r.kernel, both.tensor, both.kernel)
        why = size_refusal(producer.size, r.size, 0) or illegal_merge(merge)
        if why is not None:
            return Weighed(Candidate("", False, refused=why.words, why=why))
        numbers = tuple(values.index(a.name) for a in both.args)
        welded.append(Welded(both.kernel, numbers, both.tensor))
    price, env = facts.price, facts.env
    apart = price(producer.kernel, env) + sum(price(r.kernel, env) for r in readers)
    together = sum(price(w.kernel, env) for w in welded)
    terms = (("apart", -apart), ("welded", together), ("barrier", -facts.device.barrier_us))
    gain = sum(us for _, us in terms)
    if gain >= 0:
        why = no_gain(gain, apart)
        return Weighed(Candidate("", False, terms, why.words, why))
    return Weighed(Candidate("", True, terms), tuple(welded))
