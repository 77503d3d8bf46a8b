"""Heuristics that reject merges without a price: merges that measured as not worth it.

They know windows and halos, and values that a merge would evict from a cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from explorer.devices.model import Device
from explorer.ir.affine import Affine
from explorer.ir.decisions.candidate import Refusal
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Apply, Compute, Expr, Kernel, Read, expr_size, reads
from explorer.ir.kernels.contraction import contraction
from explorer.ir.kernels.running import slides
from explorer.transforms.winograd import can_be_filtered
from explorer.welder.groups import Facts, Merge
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
from explorer.welder.tiles.reduce_steps import in_words

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


def evicted_us(merge: Merge, facts: Facts) -> float:
    """Return the time of storing a value and loading it again if no shared cache holds it.

    The cache must also hold the producer's operands. The model of a kernel hides most of its memory
    traffic behind its arithmetic. That holds for caches; measured on kernels of 25 MB and more,
    memory's comes on top: 1 x 1 and depthwise convolutions of 256 x 256 x 48 take 1.2 and 1.4 times
    what the model says.
    """
    device = facts.device
    if stays(device, _in_use(merge, facts)):
        return 0.0
    far = device.all_gb_per_s(device.levels[-1]) * 1e3
    return 2 * bytes_at_hint(merge.consumer, merge.tensor, facts.env) / far


def cache_refusal(merge: Merge, facts: Facts) -> Refusal | None:
    """Return why windows are not reduced in their producer's tile: a cache holds the value.

    Measured on two cores: an inverted bottleneck of 112 x 112 x 144, 8 MB, takes 1.2 times as long
    as one kernel as it does as two; 256 x 256 x 32, 12 MB, takes as long; 256 x 256 x 48, 25 MB,
    takes
    0.75 times as long.
    """
    total = _in_use(merge, facts)
    if not stays(facts.device, total):
        return None
    shared = [m for m in facts.device.levels if m.shared and m.capacity_bytes]
    room = max(m.capacity_bytes or 0 for m in shared) // 2
    name = shared[-1].name
    text = f"{name} holds it, {total >> 10} KiB with its producer's operands"
    return Refusal("cache", total, room, text, f"more than {room >> 10} KiB, or connect it by hand")


def _in_use(merge: Merge, facts: Facts) -> int:
    """Return the bytes of a value and of its producer's operands, without constants."""
    kernel = merge.producer
    read = (t for t in kernel.inputs if t not in kernel.constants)
    value = bytes_at_hint(merge.consumer, merge.tensor, facts.env)
    return value + sum(bytes_at_hint(kernel, t, facts.env) for t in read)


def stays(device: Device, total_bytes: int) -> bool:
    """Return True if some shared cache has room for twice as many bytes."""
    return any(
        m.shared and m.capacity_bytes is not None and total_bytes <= m.capacity_bytes // 2
        for m in device.levels
    )


def is_window(read: Read, compute: Compute) -> bool:
    """Return True if a load is in a window that overlaps with the next one or is reduced.

    A load past the border counts as well.
    """
    if read.fill is not None:
        return True
    if not slides(compute, read) or is_cut(read, compute):
        return False
    return contraction(compute) is None or any(
        _overlaps(i, compute) for i in read.index if isinstance(i, Affine)
    )


def is_cut(read: Read, compute: Compute) -> bool:
    """Return True if a load goes through a tensor in pieces of rows and reads each element once.

    It is a part of a long reduction.
    """
    first, *others = read.index or (None,)
    extents = {a.name: a.extent for a in compute.reduce}
    bare = [i.bare if isinstance(i, Affine) else None for i in others]
    if not isinstance(first, Affine) or len(first.terms) != 2 or first.const != 0:
        return False
    if None in bare or len({*bare} - first.variables) != len(others):
        return False
    inner = [n for n, f in first.terms if f == 1 and n in extents]
    return len(inner) == 1 and all(f == extents[inner[0]] for n, f in first.terms if n not in inner)


def _overlaps(index: Affine, compute: Compute) -> bool:
    """Return True if a step of an axis is no longer than the reach of the reduced axes."""
    summed = {a.name: a.extent for a in compute.reduce}
    steps = [f for n, f in index.terms if n not in summed]
    reach = sum((f * (summed[n] - 1) for n, f in index.terms if n in summed), start=0)
    is_numeric = isinstance(reach, int) and all(isinstance(f, int) for f in steps)
    return not is_numeric or any(abs(int(f)) <= int(reach) for f in steps)


def is_shifted(read: Read) -> bool:
    """Return True if a load has one axis a dim, from any start: half of the channels of a gate."""
    terms = [i.terms for i in read.index if isinstance(i, Affine) and i.terms]
    names = [t[0][0] for t in terms]
    is_affine = all(isinstance(i, Affine) for i in read.index) and read.fill is None
    return (
        is_affine and len(set(names)) == len(names) and all(len(t) == 1 == t[0][1] for t in terms)
    )


FLOPS = 2.0  # of a product and its sum


@dataclass(frozen=True, slots=True)
class Halo:
    """The overlap of a reader's windows.

    `share`: the least part of the producer's work that is repeated if each unit has one tile:
    `rows` of overlap at each border between two of them.
    """

    rows: int
    share: float
    least_us: float


def halo(merge: Merge, facts: Facts) -> Halo | None:
    """Return the work that the reader's tiles repeat, None if no windows overlap.

    It is a lower bound: one cut for each unit, along the dim in which the fewest values overlap.
    """
    overlaps = [
        overlap
        for c, r in loads_of(merge.consumer, merge.tensor)
        if (overlap := _overlap(c, r, merge.consumer, facts.env)) is not None
    ]
    if not overlaps:
        return None
    rows, extent = max(overlaps, key=lambda o: o[0] / o[1])
    cuts = max(0, facts.device.units - 1)
    share = rows * cuts / extent
    return Halo(rows, share, share * work_us(merge.producer, facts))


def _overlap(c: Compute, read: Read, kernel: Kernel, env: ShapeEnv) -> tuple[int, int] | None:
    """Return the values that two neighbouring windows share, and the extent.

    It is the dim of a load in which these are the least part of it.
    """
    spatial = {a.name for a in c.axes}
    reduced = {a.name: env.hint(a.extent) for a in c.reduce}
    overlaps = []
    for index, extent in zip(read.index, kernel.shape(read.tensor), strict=True):
        if not isinstance(index, Affine) or not index.variables & spatial:
            continue
        steps = [abs(env.hint(k)) for n, k in index.terms if n in spatial]
        reach = 1 + sum(abs(env.hint(k)) * (reduced[n] - 1) for n, k in index.terms if n in reduced)
        overlaps.append((max(0, reach - min(steps)), max(1, env.hint(extent))))
    overlapping = [o for o in overlaps if o[0] > 0]
    if not overlapping:
        return None
    return min(overlaps, key=lambda o: o[0] / o[1]) if len(overlaps) > 1 else overlaps[0]


def work_us(kernel: Kernel, facts: Facts) -> float:
    """Return the least time of a kernel on all units: its arithmetic at the peak rate."""
    env, device = facts.env, facts.device
    flops = 0.0
    for c in kernel.computes:
        each = FLOPS if contraction(c) is not None else 1.0
        flops += each * points(c, env) * prod(env.hint(a.extent) for a in c.reduce)
    return flops / (device.peak_gflops_per_unit * 1e3 * max(1, device.units))
