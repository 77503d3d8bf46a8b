"""Merges that measured as not worth it, told by the structure of two kernels without a price."""

from __future__ import annotations

from explorer.ir.decisions.candidate import Refusal
from explorer.ir.kernel import Apply, Compute, Expr, Kernel, reads
from explorer.ir.kernels.kernel_size import expr_size
from explorer.ir.patterns.contraction import contraction
from explorer.ir.shapes.dims import ShapeEnv
from explorer.passes.convolution.winograd import could_be_filtered
from explorer.welder.groups.eviction import held_in_cache
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

MOST_REPEATS = 2.0  # of a cheap value, before it is stored; chosen, no measurement kept
MOST_CONTRACTIONS = 2  # of a group with other reductions; chosen
MOST_WINDOW_CONTRACTIONS = 3  # an inverted bottleneck has two; chosen


def unwise(merge: Merge, facts: Facts) -> Refusal | None:
    """Why a merge that could be made is not weighed at all."""
    producer, consumer, env = form_of(merge.producer), form_of(merge.consumer), facts.env
    if any(is_window(r, c) for c, r in loads_of(merge.consumer, merge.tensor)):
        return _window_refusal(merge, facts)
    if producer.is_map:
        return _map_refusal(merge, producer.last, env)
    if consumer.is_map:
        return _epilogue_refusal(merge, producer.last, consumer.last)
    return _chain_refusal(merge, facts)


def _window_refusal(merge: Merge, facts: Facts) -> Refusal | None:
    """Windows of the reader overlap, so neighbouring tiles need the same elements: that has a
    price, which is weighed, unless the convolution has a better way to be done alone, or a cache
    holds what is in between.
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
        found = contraction(c)
        if not c.reduce:
            text = "an element-wise reader takes it past its border"
            return Refusal("border", 1, 0, text, "a reader that folds windows")
        if found is not None and (producer.is_map or read != found.a):
            text = "a contraction reads each element many times: it is stored once instead"
            return Refusal("repeats", 2, 1, text, "a contraction that reads each element once")
    if could_be_filtered(merge.producer) or could_be_filtered(merge.consumer):
        text = "minimal filtering does a 3 x 3 convolution in a kernel of its own"
        return Refusal("filtering", 1, 0, text, "convolution.algorithm direct, and connect by hand")
    return held_in_cache(merge, facts)


def _map_refusal(merge: Merge, last: Compute, env: ShapeEnv) -> Refusal | None:
    """An element-wise producer is computed where it is read."""
    loads = loads_of(merge.consumer, merge.tensor)
    made = points(last, env)
    for c, read in loads:
        if contraction(c) is not None:
            times = _repeats(c, made, env)
            text = "a contraction reads each element many times: it is stored once instead"
            change = "a contraction that reads each element once"
            return Refusal("repeats", times, 1, text, change)
        repeats = _repeats(c, made, env)
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
        text = f"{len(users)} computes of the reader take it at different places"
        return Refusal("places", len(users), 1, text, "one that reads it, or rows of it alone")
    return None


def _repeats(c: Compute, made: int, env: ShapeEnv) -> float:
    """How often each of `made` values is read by a compute."""
    used = points(c, env)
    for a in c.reduce:
        used *= env.hint(a.extent)
    return used / max(1, made)


def _operations(expr: Expr) -> int:
    return expr_size(expr).operations


def _is_free(expr: Expr) -> bool:
    """Whether computing it again costs no more than loading it: at most one load and cheap
    arithmetic.
    """

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
    """An element-wise consumer takes each value once, straight from the producer's tile."""
    parts = form_of(merge.consumer).parts
    if parts > 1:
        text = f"the reader writes its output in {parts} parts"
        return Refusal("parts", parts, 1, text, "one compute that writes all of it")
    by_rows = _anchors(merge.producer) and not form_of(merge.producer).contractions
    for c, read in loads_of(merge.welded, merge.tensor):
        if not (is_point(read, c) or is_shifted(read)) and not (by_rows and is_prefix(read, c)):
            text = "the reader takes elements more than once, or in another place than its own"
            return Refusal("places", 1, 0, text, "a reader that takes each at its own place")
    if last.reduce and contraction(last) is None and not _is_straight(last):
        return Refusal("store", 1, 0, "a reduction with a split store keeps its own kernel")
    return None if consumer.axes else Refusal("axes", 0, 1, "there is nothing to tile")


def _is_straight(c: Compute) -> bool:
    """Whether the axes are the dims of what is written, in order, but for dims of extent 1."""
    return [i.bare for i in c.target if i.terms] == [a.name for a in c.axes]


def _anchors(kernel: Kernel) -> int:
    form = form_of(kernel)
    return form.contractions + form.reductions


def _chain_refusal(merge: Merge, facts: Facts) -> Refusal | None:
    """Row-wise chains: contractions, softmax or norm, where the reader needs whole rows of the
    producer. Contractions alone may be many, where what lies between them would go to memory: each
    row goes through all of them in cache, and what that costs is priced.
    """
    producer, consumer = form_of(merge.producer), form_of(merge.consumer)
    for c, read in loads_of(merge.consumer, merge.tensor):
        found = contraction(c)
        if found is not None:
            if read != found.a:
                text = "it is the operand that every row tile reads whole"
                return Refusal("operand", 1, 0, text, "read it by rows")
        elif not (is_row(read, c) or is_once(read, c)):
            text = "the reader takes some elements again, in windows"
            return Refusal("windows", 1, 0, text, "a reader of each element once")
    reductions = producer.reductions + consumer.reductions
    contractions = producer.contractions + consumer.contractions
    direct = any(contraction(c) is not None for c, _ in loads_of(merge.consumer, merge.tensor))
    if producer.contractions and (direct or not reductions) and not producer.reductions:
        why = _near(merge, facts) if consumer.contractions else None
        if why is not None:
            return why
    if reductions and contractions > MOST_CONTRACTIONS:
        text = f"the group would hold {contractions} contractions, at most {MOST_CONTRACTIONS}"
        change = f"leave {contractions - MOST_CONTRACTIONS} out"
        return Refusal("contractions", contractions, MOST_CONTRACTIONS, text, change)
    return None


def _near(merge: Merge, facts: Facts) -> Refusal | None:
    """Two products in a row whose value a cache of all units holds: handed over there, each has the
    tiles that suit it. Welded, MobileNetV2 took 1.2 and NAFNet 1.1 times as long; a chain of seven
    products whose values go to memory, a third.
    """
    size, device = bytes_at_hint(merge.consumer, merge.tensor, facts.env), facts.device
    level = home(device, size)
    if level == device.levels[-1].name:
        return None
    room = device.level(level).capacity_bytes or 0
    text = f"{level} holds the {in_words(size)} between two products, each has its own tiles"
    change = f"more than {in_words(room // 2)} between them"
    return Refusal("near", size, room // 2, text, change)
