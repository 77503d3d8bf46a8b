"""Analysis feedback (Relax, section 3.3): pattern kinds of kernels from their index maps alone.

No operator is identified by name; a block of the paper is a compute here. Axes of extent 1 do not
count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum

from explorer.ir.affine import Affine
from explorer.ir.dims import Shape
from explorer.ir.kernel import (
    Apply,
    Compute,
    Expr,
    Kernel,
    Read,
    reads,
    substitute_index,
    variables,
)
from explorer.ir.program import Program


class PatternKind(IntEnum):
    """Pattern kinds, from what fuses most to what fuses least.

    A kernel has the greatest kind of its computes.
    """

    ELEMENTWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_EWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8

    @property
    def word(self) -> str:
        """The kind as the paper spells it."""
        return _WORDS[self]


_WORDS = {
    PatternKind.ELEMENTWISE: "ElementWise",
    PatternKind.BROADCAST: "Broadcast",
    PatternKind.INJECTIVE: "Injective",
    PatternKind.COMM_REDUCE: "CommReduce",
    PatternKind.OUT_EWISE_FUSABLE: "OutEWiseFusable",
    PatternKind.TUPLE: "Tuple",
    PatternKind.OPAQUE: "Opaque",
}


@dataclass(frozen=True, slots=True)
class LoadEvidence:
    """One load compared with the store of its compute; `kind` is None if no map is one-to-one.

    `moves` is True if a producer of this tensor could be computed in place of the load.
    """

    compute: str
    tensor: str
    kind: PatternKind | None
    sentence: str
    moves: bool = True


@dataclass(frozen=True, slots=True)
class KindFinding:
    """The kind of a kernel, with its evidence.

    `loads` are the loads it was derived from, `steps` the reasoning, `why` the deciding sentence.
    """

    kind: PatternKind
    loads: tuple[LoadEvidence, ...] = ()
    steps: tuple[str, ...] = ()
    why: str = ""

    def loads_of(self, tensor: str) -> tuple[LoadEvidence, ...]:
        """Return the loads of one tensor."""
        return tuple(load for load in self.loads if load.tensor == tensor)


def kinds(program: Program) -> dict[str, KindFinding]:
    """Return the kind of every kernel call of a program, by the value that it binds."""
    kind_by_value: dict[str, KindFinding] = {}
    for binding in program.kernel_calls:
        kind_by_value[binding.name] = pattern_kind(binding.kernel_call.kernel)
    return kind_by_value


def pattern_kind(kernel: Kernel) -> KindFinding:
    """Return the kind of a kernel, from its index maps alone."""
    loads = tuple(evidence for c in kernel.computes for evidence in _evidence(kernel, c))
    if not kernel.computes:
        nothing = "nothing is stored"
        return KindFinding(PatternKind.OPAQUE, loads, (nothing,), nothing)
    kind, why, steps = PatternKind.ELEMENTWISE, "", list[str]()
    for compute in kernel.computes:
        before = kind
        kind, sentence = _with_block(kernel, compute, kind)
        steps.append(f"{compute.out}: {sentence}")
        why = sentence if kind > before or not why else why
        if kind is PatternKind.OPAQUE:
            break
    return KindFinding(kind, loads, tuple(steps), why)


def _with_block(kernel: Kernel, c: Compute, so_far: PatternKind) -> tuple[PatternKind, str]:
    """Return the kind after one more compute, and the reason."""
    opaque = _opaque(kernel, c)
    if opaque:
        return PatternKind.OPAQUE, opaque
    if c.reduce:
        kind, sentence = _reduction(c)
        return max(so_far, kind), sentence
    kind, sentence = _pairs(_evidence(kernel, c))
    if kind is PatternKind.OPAQUE:
        return kind, sentence
    if c.out in kernel.outputs and so_far is PatternKind.COMM_REDUCE:
        return (
            PatternKind.OUT_EWISE_FUSABLE,
            f"{sentence}; it writes the output after a reduction, as softmax does",
        )
    return max(so_far, kind), sentence


def _opaque(kernel: Kernel, c: Compute) -> str:
    writers = [k for k in kernel.computes if k.out == c.out]
    if len({(k.target, k.axes) for k in writers}) > 1:
        return f"{len(writers)} stores write it at different places"
    if len(kernel.outputs) > 1:
        return f"it writes {len(kernel.outputs)} tensors"
    for _, taken in kernel.updates:
        return f"it overwrites {taken!r}"
    return ""


def _pairs(loads: tuple[LoadEvidence, ...]) -> tuple[PatternKind, str]:
    """Return the kind of a compute without a reduction."""
    worst = max((k.kind for k in loads if k.kind is not None), default=PatternKind.ELEMENTWISE)
    stray = next((k for k in loads if k.kind is None), None)
    if stray is not None:
        return PatternKind.OPAQUE, f"{stray.tensor}: {stray.sentence}"
    if not loads:
        return PatternKind.ELEMENTWISE, "nothing is loaded"
    has_elementwise = any(k.kind is PatternKind.ELEMENTWISE for k in loads)
    if worst is PatternKind.BROADCAST and has_elementwise:
        return (
            PatternKind.ELEMENTWISE,
            "one load has all indices equal, the others a subset of them in order",
        )
    return worst, next(k.sentence for k in loads if k.kind is worst)


def _reduction(c: Compute) -> tuple[PatternKind, str]:
    product = _product(c)
    if product:
        return PatternKind.OUT_EWISE_FUSABLE, product
    over = {a.name for a in c.reduce if a.extent != 1}
    for read in reads(c.expr):
        for index in read.index:
            mixed = index.variables if isinstance(index, Affine) else variables(index)
            if mixed & over and len(mixed) > 1:
                names = " and ".join(sorted(mixed))
                return (
                    PatternKind.OUT_EWISE_FUSABLE,
                    f"{read.tensor} is read at an index that mixes {names}, as pooling does",
                )
    names = ", ".join(a.name for a in c.reduce)
    return PatternKind.COMM_REDUCE, f"a {c.combiner} over {names}"


def _product(c: Compute) -> str:
    """Return why a sum of products reuses its operands, or "" if it does not."""
    expr = _without_casts(c.expr)
    if c.combiner != "sum" or not isinstance(expr, Apply) or expr.op != "mul":
        return ""
    a, b = (_without_casts(x) for x in expr.args)
    if not isinstance(a, Read) or not isinstance(b, Read):
        return ""
    mine = [x.name for x in c.axes if x.extent != 1]
    absent = [[n for n in mine if n not in variables(x)] for x in (a, b)]
    if not all(absent):
        return ""
    return (
        f"a sum of products: {a.tensor} is reused along {', '.join(absent[0])}, "
        f"{b.tensor} along {', '.join(absent[1])}"
    )


def _without_casts(expr: Expr) -> Expr:
    while isinstance(expr, Apply) and expr.op.startswith("cast_"):
        expr = expr.args[0]
    return expr


def _evidence(kernel: Kernel, c: Compute) -> tuple[LoadEvidence, ...]:
    """Return the evidence of each distinct load of a compute."""
    ones = {a.name: Affine() for a in (*c.axes, *c.reduce) if a.extent == 1}
    store = _moving(tuple(i.substitute(ones) for i in c.target), kernel.shape(c.out))
    own = {a.name for a in c.axes} - ones.keys()
    evidence: list[LoadEvidence] = []
    for read in dict.fromkeys(reads(c.expr)):
        index = tuple(substitute_index(i, ones) for i in read.index)
        place = _moving(index, kernel.shape(read.tensor))
        evidence.append(_load(c, replace(read, index=index), store, place, own))
    return tuple(evidence)


def _load(
    c: Compute, read: Read, store: tuple[object, ...], load_index: tuple[object, ...], own: set[str]
) -> LoadEvidence:
    def evidence_of(kind: PatternKind | None, sentence: str, moves: bool = True) -> LoadEvidence:
        return LoadEvidence(c.out, read.tensor, kind, sentence, moves)

    used = variables(read)
    over = ", ".join(a.name for a in c.reduce if a.name in used)
    if not _is_plain(read):
        where = "past its border" if read.fill is not None else "at indices that are data"
        return evidence_of(None if over else PatternKind.INJECTIVE, f"it is read {where}", False)
    if over:
        return evidence_of(None, f"indices run over the reduced {over}")
    if store == load_index:
        return evidence_of(PatternKind.ELEMENTWISE, "all indices equal")
    if _is_subsequence(load_index, store):
        return evidence_of(PatternKind.BROADCAST, "a subset of the store's indices, in order")
    if used <= own:
        return evidence_of(PatternKind.INJECTIVE, "indices depend on the store's axes alone")
    return evidence_of(None, f"indices depend on {', '.join(sorted(used - own))}, which store none")


def _is_plain(read: Read) -> bool:
    return read.fill is None and all(isinstance(i, Affine) for i in read.index)


def _moving(index: tuple[object, ...], shape: Shape) -> tuple[object, ...]:
    """Return the indices without the zeros of dims of extent 1."""
    return tuple(i for i, n in zip(index, shape, strict=True) if n != 1 or i != Affine())


def _is_subsequence(few: tuple[object, ...], many: tuple[object, ...]) -> bool:
    remaining = iter(many)
    return all(any(x == y for y in remaining) for x in few)
