"""A product whose readers take different columns of it is made in each of them, as far as that one
needs it: no column is made twice, and what they read need not be stored first.

The gates of an LSTM's cell are one product of four blocks of columns: three of them make the new
cell state, the fourth the new hidden state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from explorer.ir.calls import Var
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.kernel import Kernel
from explorer.ir.kernels.column_blocks import blocks_read, split_columns
from explorer.welder.groups.groups import Facts, Group, Merge, Merged, merged, taken
from explorer.welder.groups.refusals import impossible, no_gain, too_large
from explorer.welder.model import form_of

Reader = tuple[Kernel, str]  # and what it calls the value


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
    for g in groups.values():
        for value in dict.fromkeys(a.name for a in g.args):
            readers_of.setdefault(value, []).append(g.name)
    for name in groups:
        readers = [made[n] for n in readers_of.get(name, ())]
        if len(readers) < 2 or not _could(made[name], readers, facts):
            continue
        verdict, found = _weighed(made[name], readers, facts)
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
    producer: Group, readers: Sequence[Group], facts: Facts
) -> tuple[Candidate[bool], list[Group] | None]:
    """The readers with their parts of the producer, where that is worth it."""
    arg: Var = next(a for a in readers[0].args if a.name == producer.name)
    label = f"{producer.name} by columns into {', '.join(r.name for r in readers)}"
    found = []
    for r in readers:
        both = merged(r, producer, arg, facts.env)
        both = replace(both, kernel=split_columns(both.kernel))
        merge = Merge(producer.kernel, r.kernel, both.tensor, both.kernel)
        why = too_large(producer.size, r.size, 0) or impossible(merge)
        if why is not None:
            return Candidate(label, False, refused=why.words, why=why), None
        found.append(taken(r, producer, arg, both, facts.device))
    price, env = facts.price, facts.env
    apart = price(producer.kernel, env) + sum(price(r.kernel, env) for r in readers)
    welded = sum(price(g.kernel, env) for g in found)
    terms = (("apart", -apart), ("welded", welded), ("barrier", -facts.device.barrier_us))
    gain = sum(us for _, us in terms)
    if gain >= 0:
        why = no_gain(gain, apart)
        return Candidate(label, False, terms, why.words, why), None
    return Candidate(label, True, terms), found
