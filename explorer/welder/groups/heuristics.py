"""Heuristics that reject merges without a price: merges that measured as not worth it."""

from __future__ import annotations

from explorer.ir.decisions.candidate import Refusal
from explorer.ir.kernel import Apply, Compute, Expr, Kernel, reads
from explorer.ir.kernels.kernel_size import expr_size
from explorer.ir.patterns.contraction import contraction
from explorer.ir.shapes.dims import ShapeEnv
from explorer.passes.convolution.winograd import can_be_filtered
from explorer.welder.groups.eviction import cache_refusal
from explorer.welder.groups.groups import Facts, Merge
from explorer.welder.groups.windows import is_cut, is_shifted, is_window
from explorer.welder.model import (
    bytes_at_hint,
    form_of,
    home,
    is_once,
    is_point,
    is_prefix,
    is_row,
    loads_of,
    points,
)
from explorer.welder.tiles.capacity import in_words

MOST_REPEATS = 2.0  # of a cheap value, before it is stored; chosen, not measured
MOST_CONTRACTIONS = 2  # of a group with other reductions; chosen
MOST_WINDOW_CONTRACTIONS = 3  # an inverted bottleneck has two; chosen


def rejected_by_heuristic(merge: Merge, facts: Facts) -> Refusal | None:
    """Return why a legal merge is not weighed at all."""
    producer, consumer, env = form_of(merge.producer), form_of(merge.consumer), facts.env
    if any(is_window(r, c) for c, r in loads_of(merge.consumer, merge.tensor)):
        return _window_refusal(merge, facts)
    if producer.is_map:
        return _map_refusal(merge, producer.last, env)
    if consumer.is_map:
        return _epilogue_refusal(merge, producer.last, consumer.last)
    return _chain_refusal(merge, facts)


def _window_refusal(merge: Merge, facts: Facts) -> Refusal | None:
    """Return why a reader with overlapping windows is not fused.

    Neighbouring tiles need the same elements: that has a price, which is weighed. It is refused if
    the convolution has a better algorithm alone, or a cache holds the value.
    """
    producer, consumer = form_of(merge.producer), form_of(merge.consumer)
    contractions = producer.contractions + consumer.contractions
    if contractions > MOST_WINDOW_CONTRACTIONS:
        text = (
            f"the group would hold {contractions} contractions, at most {MOST_WINDOW_CONTRACTIONS}"
        )
        change = f"leave {contractions - MOST_WINDOW_CONTRACTIONS} out"
        return Refusal("contractions", contractions, MOST_WINDOW_CONTRACTIONS, text, change)
    for c, read in loads_of(merge.consumer, merge.tensor):
        match = contraction(c)
        if not c.reduce:
            text = "an element-wise reader reads it out of bounds"
            return Refusal("border", 1, 0, text, "a reader that reduces windows")
        if match is not None and (producer.is_map or read != match.a):
            text = "a contraction reads each element many times: it is stored once instead"
            return Refusal("repeats", 2, 1, text, "a contraction that reads each element once")
    if can_be_filtered(merge.producer) or can_be_filtered(merge.consumer):
        text = "minimal filtering does a 3 x 3 convolution in a kernel of its own"
        return Refusal("filtering", 1, 0, text, "convolution.algorithm direct, and connect by hand")
    return cache_refusal(merge, facts)


def _map_refusal(merge: Merge, last: Compute, env: ShapeEnv) -> Refusal | None:
    """Return why an element-wise producer is not computed where it is read."""
    loads = loads_of(merge.consumer, merge.tensor)
    values = points(last, env)
    for c, read in loads:
        if contraction(c) is not None:
            times = _repeats(c, values, env)
            text = "a contraction reads each element many times: it is stored once instead"
            change = "a contraction that reads each element once"
            return Refusal("repeats", times, 1, text, change)
        repeats = _repeats(c, values, env)
        if repeats > MOST_REPEATS and not _is_free(last.expr):
            text = f"it would be computed {repeats:.0f} times over, at most {MOST_REPEATS:.0f}"
            change = f"{_operations(last.expr)} operations a value fewer, or as few reads"
            return Refusal("repeats", repeats, MOST_REPEATS, text, change)
        once = is_row(read, c) or is_once(read, c) or is_cut(read, c)
        if c.reduce and not once and not _is_free(last.expr):
            change = "a reduction that reads each element once"
            return Refusal("windows", 1, 0, "a reduction reads it in windows", change)
    users = {c.out for c, _ in loads}
    if len(users) > 1 and not all(is_row(r, c) or is_once(r, c) for c, r in loads):
        text = f"{len(users)} computes of the reader load it at different indices"
        return Refusal(
            "places",
            len(users),
            1,
            text,
            "one compute that reads it, or reads of complete rows only",
        )
    return None


def _repeats(c: Compute, values: int, env: ShapeEnv) -> float:
    """Return how often a compute reads each of so many values."""
    used = points(c, env)
    for a in c.reduce:
        used *= env.hint(a.extent)
    return used / max(1, values)


def _operations(expr: Expr) -> int:
    return expr_size(expr).operations


def _is_free(expr: Expr) -> bool:
    """Return True if recomputing costs no more than loading: one load, cheap arithmetic."""

    def cheap(e: Expr) -> bool:
        match e:
            case Apply(op, args):
                light = op in ("add", "sub", "mul", "max", "min", "neg", "where") or op.startswith(
                    "cast_"
                )
                return light and all(cheap(a) for a in args)
            case _:
                return True

    return cheap(expr) and len(list(reads(expr))) <= 1


def _epilogue_refusal(merge: Merge, last: Compute, consumer: Compute) -> Refusal | None:
    """Return why an element-wise consumer cannot take each value once from the producer's tile."""
    parts = form_of(merge.consumer).parts
    if parts > 1:
        text = f"the reader writes its output in {parts} parts"
        return Refusal("parts", parts, 1, text, "one compute that writes all of it")
    by_rows = _anchors(merge.producer) and not form_of(merge.producer).contractions
    for c, read in loads_of(merge.welded, merge.tensor):
        if not (is_point(read, c) or is_shifted(read)) and not (by_rows and is_prefix(read, c)):
            text = "the reader loads elements more than once, or at another index than it writes"
            return Refusal(
                "places", 1, 0, text, "a reader that loads each element at the index it writes"
            )
    if last.reduce and contraction(last) is None and not _is_straight(last):
        return Refusal("store", 1, 0, "a reduction with a split store keeps its own kernel")
    return None if consumer.axes else Refusal("axes", 0, 1, "the reader has no axis to tile")


def _is_straight(c: Compute) -> bool:
    """Return True if the axes are the dims of the result, in order, except dims of extent 1."""
    return [i.bare for i in c.target if i.terms] == [a.name for a in c.axes]


def _anchors(kernel: Kernel) -> int:
    form = form_of(kernel)
    return form.contractions + form.reductions


def _chain_refusal(merge: Merge, facts: Facts) -> Refusal | None:
    """Return why a row-wise chain is not fused.

    A chain has contractions, softmax or norm, where the reader needs complete rows of the producer.
    There may be many contractions alone if the values between them would go to memory: each row
    goes through all of them in cache, and that cost is priced.
    """
    producer, consumer = form_of(merge.producer), form_of(merge.consumer)
    for c, read in loads_of(merge.consumer, merge.tensor):
        match = contraction(c)
        if match is not None:
            if read != match.a:
                text = "every row tile reads this operand in full"
                return Refusal("operand", 1, 0, text, "read it by rows")
        elif not (is_row(read, c) or is_once(read, c)):
            text = "the reader loads some elements repeatedly, in windows"
            return Refusal("windows", 1, 0, text, "a reader that loads each element once")
    reductions = producer.reductions + consumer.reductions
    contractions = producer.contractions + consumer.contractions
    direct = any(contraction(c) is not None for c, _ in loads_of(merge.consumer, merge.tensor))
    if producer.contractions and (direct or not reductions) and not producer.reductions:
        why = _cached_products_refusal(merge, facts) if consumer.contractions else None
        if why is not None:
            return why
    if reductions and contractions > MOST_CONTRACTIONS:
        text = f"the group would hold {contractions} contractions, at most {MOST_CONTRACTIONS}"
        change = f"leave {contractions - MOST_CONTRACTIONS} out"
        return Refusal("contractions", contractions, MOST_CONTRACTIONS, text, change)
    return None


def _cached_products_refusal(merge: Merge, facts: Facts) -> Refusal | None:
    """Return why two products whose value a shared cache holds are not fused.

    If it passes there, each has the tiles that suit it. Fused, MobileNetV2 took 1.2 and NAFNet 1.1
    times as long; a chain of seven products whose values go to memory, a third.
    """
    size, device = bytes_at_hint(merge.consumer, merge.tensor, facts.env), facts.device
    level = home(device, size)
    if level == device.levels[-1].name:
        return None
    room = device.level(level).capacity_bytes or 0
    text = f"{level} holds the {in_words(size)} between two products, each has its own tiles"
    change = f"more than {in_words(room // 2)} between them"
    return Refusal("near", size, room // 2, text, change)
