"""Refusals of merges: illegal or too large.

Each has the failing condition with its number, and the smallest change that would satisfy it.
"""

from __future__ import annotations

from itertools import islice

from explorer.ir.affine import Affine
from explorer.ir.decisions.candidate import Refusal
from explorer.ir.kernel import Size
from explorer.ir.kernels.in_place import wrong_update
from explorer.welder.groups import Facts, Group, Merge
from explorer.welder.model import form_of, loads_of

MOST_INPUTS = 24  # of a kernel; chosen
MOST_COMPUTES = 24  # of a kernel; chosen
MOST_OPERATIONS = 128  # scalar functions of a kernel; chosen: the zoo's largest group holds 40
MOST_NESTED_OPERATIONS = 32  # scalar functions within each other; chosen: the zoo's deepest has 8
NAMED_READERS = 3  # readers that a refusal names; chosen


def early_refusal(group: Group, producer: Group, value: str, facts: Facts) -> Refusal | None:
    """Return why two groups are not merged, as far as it is known before the merge."""
    last = facts.device.levels[-1].name
    if facts.connect.get(value) == last:
        change = f"connect {value} at a nearer level"
        return Refusal("connect", 1, 0, f"it is kept apart by hand, in {last}", change)
    if value in facts.rows:
        return Refusal("row", 1, 0, "the loop reads this row in place, without a copy")
    several = len(producer.kernel.outputs)
    if several > 1:
        return Refusal("outputs", several, 1, f"its kernel stores {several} tensors for others")
    gone = (a.name for a in producer.args if producer.number < facts.over.get(a.name, -1))
    late = next((n for n in gone if facts.over[n] < group.number), None)
    if late is not None:
        return Refusal("in place", 1, 0, f"{late} is overwritten before it would be read")
    readers_refusal = other_readers(group, value, facts)
    if readers_refusal is not None:
        return readers_refusal
    tensor = next(t for t, a in zip(group.kernel.inputs, group.args) if a.name == value)
    times = len(loads_of(group.kernel, tensor)) if form_of(producer.kernel).is_map else 0
    return size_refusal(producer.size, group.size, times)


def other_readers(group: Group, value: str, facts: Facts) -> Refusal | None:
    """Return why a value that is read outside of the group, too, gains nothing inside."""
    others = facts.uses[value] - group.uses[value]
    if others <= 0:
        return None
    if value in facts.results:
        return Refusal("result", 1, 0, "it is a result of the program and must be stored")
    apart = (r for r in facts.readers.get(value, ()) if r not in group.members)
    names = list(islice(apart, NAMED_READERS + 1))
    more = f"{others} other consumers" if others > 1 else "another consumer"
    text = f"it has {more} and must be stored"
    more = ", ..." if len(names) > NAMED_READERS else ""
    change = f"join {', '.join(names[:NAMED_READERS])}{more} too" if names else ""
    return Refusal("readers", others, 0, text, change)


def size_refusal(producer: Size, consumer: Size, times: int) -> Refusal | None:
    """Return why two kernels are too large to be merged, as far as it is known before the merge.

    An element-wise producer is inlined into the reader's expressions as often as it is read:
    `times`. It is 0 for other producers, which stay computes of their own.
    """
    operations = consumer.operations + max(1, times) * producer.operations
    if operations > MOST_OPERATIONS:
        text = f"the kernel would hold {operations} operations, at most {MOST_OPERATIONS}"
        return _bound("operations", operations, MOST_OPERATIONS, text)
    depth = consumer.depth + producer.depth if times else 0
    if depth > MOST_NESTED_OPERATIONS:
        text = f"the kernel would nest {depth} operations, at most {MOST_NESTED_OPERATIONS}"
        return _bound("depth", depth, MOST_NESTED_OPERATIONS, text)
    return None


def _bound(condition: str, value: int, limit: int, text: str) -> Refusal:
    fewer = f"with {value - limit} fewer it would fit"
    return Refusal(condition, value, limit, text, fewer)


def illegal_merge(merge: Merge) -> Refusal | None:
    """Return why a merge is illegal, whatever it would gain."""
    inputs, computes = len(merge.welded.inputs), len(merge.welded.computes)
    if inputs > MOST_INPUTS:
        text = f"the group would read {inputs} tensors, at most {MOST_INPUTS}"
        return _bound("inputs", inputs, MOST_INPUTS, text)
    if computes > MOST_COMPUTES:
        text = f"the group would have {computes} computes, at most {MOST_COMPUTES}"
        return _bound("computes", computes, MOST_COMPUTES, text)
    taken = {name for _, name in merge.consumer.updates}
    if merge.producer.updates or merge.tensor in taken:
        return Refusal("in place", 1, 0, "it is written into the memory of a larger tensor")
    why = wrong_update(merge.welded)
    if why:
        return Refusal("in place", 1, 0, why)
    parts = form_of(merge.producer).parts
    if parts > 1:
        text = f"it is written in {parts} parts, by several computes, and must be stored"
        return Refusal("parts", parts, 1, text, "one compute that writes all of it")
    loads = loads_of(merge.consumer, merge.tensor)
    by_data = sum(not isinstance(i, Affine) for _, r in loads for i in r.index)
    if by_data:
        text = "which elements are read depends on data"
        return Refusal("data", by_data, 0, text, "an index that is affine in the axes")
    return None


def no_gain(us: float, apart_us: float) -> Refusal:
    """Return the refusal of a merge that would cost time by the model.

    `apart_us`: the time of both kernels now.
    """
    text = f"it would take {us:.1f} us longer by the model"
    share = us / max(1e-9, apart_us + us)
    change = f"a fused kernel {share:.0%} faster would pay" if 0 < us < float("inf") else ""
    return Refusal("gain", us, 0.0, text, change)
