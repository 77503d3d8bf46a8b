"""Whether two kernels should share their tiles: what it saves in memory traffic, what it costs, and
why not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from explorer.devices.model import Device
from explorer.ir.contraction import contraction
from explorer.ir.decisions import Candidate
from explorer.ir.dims import ShapeEnv
from explorer.ir.kernel import Affine, Apply, Compute, Expr, Kernel, reads
from explorer.ir.kernel_size import Size
from explorer.welder.model import (
    bytes_at_hint,
    form_of,
    is_point,
    is_prefix,
    is_row,
    loads_of,
    points,
)

Price = Callable[[Kernel, ShapeEnv], float]  # modelled microseconds at the best tiling

MOST_INPUTS = 24
MOST_COMPUTES = 24
MOST_OPERATIONS = 128  # scalar functions of a kernel; the zoo's largest group holds 40
MOST_DEPTH = 32  # of scalar functions that nest; the zoo's deepest has 8
MOST_REPEATS = 2.0  # how often a cheap value may be computed instead of being stored and loaded


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge under consideration: `consumer` reads what `producer` writes as `tensor`; `welded`
    does both.
    """

    producer: Kernel
    consumer: Kernel
    tensor: str
    welded: Kernel


def too_large(producer: Size, consumer: Size, times: int) -> str:
    """Why two kernels are too large to become one, whatever would be gained; told before they do.

    What is mapped element by element stands in the reader's expressions as often as it is read:
    `times`, or 0 where it is not mapped and stays a compute of its own.
    """
    operations = consumer.operations + max(1, times) * producer.operations
    if operations > MOST_OPERATIONS:
        return f"the kernel would hold {operations} operations, at most {MOST_OPERATIONS}"
    depth = consumer.depth + producer.depth if times else 0
    if depth > MOST_DEPTH:
        return f"the kernel would nest {depth} operations, at most {MOST_DEPTH}"
    return ""


def greedy(merge: Merge, device: Device, env: ShapeEnv, price: Price) -> Candidate:
    """The modelled change in time, in named terms (below zero is a gain), or the reason why not."""
    label = f"{merge.producer.name} into {merge.consumer.name}"
    why = _refusal(merge, env)
    if why:
        return Candidate(label, False, refused=why)
    size = bytes_at_hint(merge.consumer, merge.tensor, env)
    level = _home(device, size)
    saved = -2 * size / (device.level(level).bandwidth_gb_per_s * 1e3) / max(1, device.units)
    terms = [(f"{level} traffic", saved), ("barrier", -device.barrier_us)]
    if not _is_pointwise(merge):
        before = price(merge.producer, env) + price(merge.consumer, env)
        after = price(merge.welded, env)
        terms = [("apart", -before), ("welded", after), ("barrier", -device.barrier_us)]
    gain = sum(us for _, us in terms)
    if gain >= 0:
        return Candidate(
            label, False, tuple(terms), f"it would take {gain:.1f} us longer by the model"
        )
    return Candidate(label, True, tuple(terms))


def _home(device: Device, size: int) -> str:
    for m in device.levels:
        if m.shared and m.capacity_bytes is not None and size <= m.capacity_bytes // 2:
            return m.name
    return device.levels[-1].name


def _is_pointwise(merge: Merge) -> bool:
    """Whether the merge leaves every tile as it was: one side only maps, element by element."""
    if form_of(merge.producer).is_map:
        return True
    loads = loads_of(merge.welded, merge.tensor)
    return form_of(merge.consumer).is_map and all(is_point(r, c) for c, r in loads)


def _refusal(merge: Merge, env: ShapeEnv) -> str:
    if len(merge.welded.inputs) > MOST_INPUTS:
        return f"the group would read {len(merge.welded.inputs)} tensors, at most {MOST_INPUTS}"
    if len(merge.welded.computes) > MOST_COMPUTES:
        return (
            f"the group would have {len(merge.welded.computes)} computes, at most {MOST_COMPUTES}"
        )
    producer, consumer = form_of(merge.producer), form_of(merge.consumer)
    if merge.producer.updates or merge.tensor == merge.consumer.updates:
        return "it lies in the memory of a larger tensor"
    if producer.parts > 1:
        return "what several computes write in parts is stored whole"
    loads = loads_of(merge.consumer, merge.tensor)
    if any(not isinstance(i, Affine) for _, r in loads for i in r.index):
        return "which elements are read depends on data"
    if any(r.fill is not None for _, r in loads):
        return "it is read past its border: neighbouring tiles would compute the same elements"
    if producer.is_map:
        return _map_refusal(merge, producer.last, env)
    if consumer.is_map:
        return _epilogue_refusal(merge, producer.last, consumer.last)
    return _chain_refusal(merge)


def _map_refusal(merge: Merge, last: Compute, env: ShapeEnv) -> str:
    """An element-wise producer is computed where it is read."""
    loads = loads_of(merge.consumer, merge.tensor)
    made = points(last, env)
    for c, read in loads:
        if contraction(c) is not None:
            return "a contraction reads each element many times: it is stored once instead"
        used = points(c, env)
        for a in c.reduce:
            used *= env.hint(a.extent)
        repeats = used / max(1, made)
        if repeats > MOST_REPEATS and not _is_free(last.expr):
            return f"it would be computed {repeats:.0f} times over"
        if c.reduce and not is_row(read, c) and not _is_free(last.expr):
            return "a reduction reads it across rows"
    users = {c.out for c, _ in loads}
    if len(users) > 1 and not all(is_row(r, c) for c, r in loads):
        return "several computes of the reader take it at different places"
    return ""


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


def _epilogue_refusal(merge: Merge, last: Compute, consumer: Compute) -> str:
    """An element-wise consumer takes each value once, straight from the producer's tile."""
    if form_of(merge.consumer).parts > 1:
        return "the reader writes its output in several parts"
    by_rows = _anchors(merge.producer) and not form_of(merge.producer).contractions
    for c, read in loads_of(merge.welded, merge.tensor):
        if not is_point(read, c) and not (by_rows and is_prefix(read, c)):
            return "the reader takes elements more than once, or in another place than its own"
    anchors = form_of(merge.welded)
    if anchors.contractions + anchors.reductions > _anchors(merge.producer):
        return "the reader already follows another reduction"
    if last.reduce and contraction(last) is None and not _is_straight(last):
        return "a reduction with a split store keeps its own kernel"
    return "" if consumer.axes else "there is nothing to tile"


def _is_straight(c: Compute) -> bool:
    """Whether the axes are the dims of what is written, in order, but for dims of extent 1."""
    return [i.bare for i in c.target if i.terms] == [a.name for a in c.axes]


def _anchors(kernel: Kernel) -> int:
    form = form_of(kernel)
    return form.contractions + form.reductions


def _chain_refusal(merge: Merge) -> str:
    """Row-wise chains: contraction -> softmax or norm -> contraction, where the reader needs whole
    rows of the producer.
    """
    producer, consumer = form_of(merge.producer), form_of(merge.consumer)
    for c, read in loads_of(merge.consumer, merge.tensor):
        found = contraction(c)
        if found is not None:
            if read != found.a:
                return "it is the operand that every row tile reads whole"
            if producer.reductions == 0:
                return "two contractions in a row: halo or recompute outweigh the traffic here"
        elif not (is_row(read, c) or is_prefix(read, c)):
            return "the reader does not walk whole rows of it"
    reductions = producer.reductions + consumer.reductions
    if producer.contractions and consumer.contractions and not reductions:
        return "the reader already follows another contraction"
    if producer.contractions + consumer.contractions > 2:
        return "a group holds two contractions at most"
    return ""
