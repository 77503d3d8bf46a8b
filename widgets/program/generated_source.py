"""Generated code of one kernel: Numba source, LLVM IR and assembly, with each line's operators."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from explorer.errors import BadOption
from explorer.ir import kernel as ir
from explorer.ir.kernels.canonical import canonical
from explorer.ir.kernels.normal import normalise
from widgets.draw.svg import Svg, fit, label
from widgets.draw.table import Table
from widgets.model.compiled import Kernel
from widgets.model.picture import Drawn, OnShow, Picture

LANGUAGES = ("numba", "llvm", "assembly")
PTX_COMMENT = "//"  # what PTX begins with, and neither LLVM IR nor assembly


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The lines of one kernel in one language; every line comes from the kernel's operators."""

    kernel: str
    language: str
    lines: tuple[str, ...]
    ops: tuple[str, ...]
    sources: tuple[int, ...] = ()  # the line of the source of each, 0 for none; empty: not known


def data(kernel: Kernel, language: str = "numba") -> SourceRows:
    """Return the lines; LLVM IR and assembly are produced on demand."""
    ops = tuple(sorted(kernel.origins))
    if language == "numba":
        lines = tuple(kernel.source.rstrip("\n").split("\n"))
        return SourceRows(kernel.name, language, lines, ops, tuple(range(1, len(lines) + 1)))
    listings = kernel.listings
    listing = listings.llvm if language == "llvm" else listings.assembly
    lines = tuple(listing.text.rstrip("\n").split("\n"))
    return SourceRows(kernel.name, language, lines, ops, listing.lines)


def instructions(assembly: SourceRows, most: int = 12) -> tuple[tuple[str, int], ...]:
    """Return the most frequent instructions of an assembly text."""
    counts = Counter(
        words[0]
        for line in assembly.lines
        if line[:1] in (" ", "\t")
        and (words := line.split())
        and not words[0].startswith((".", "#", ";"))
    )
    return tuple(counts.most_common(most))


def line_origins(source: str, kernel: ir.Kernel) -> tuple[frozenset[str], ...]:
    """Return the source operators of each line: those of the computes whose tensors it writes.

    A line that writes nothing belongs to the next one that does; the lines before the loop over
    tasks belong to no operator. A tensor that is never written under its own name is computed as
    part of its reader. The source uses the kernel's canonical names, in the order of its computes.
    In the source of a thread block, only the lines that compute thread indices belong to no
    operator.
    """
    lines = source.rstrip("\n").split("\n")
    if _THREADS in lines:
        return _spread([_of_block(line) for line in lines], kernel)
    stores = _stores_of(lines)
    inside = [line.startswith(_BODY) for line in lines]
    return _spread([_written(x, stores) if i else None for x, i in zip(lines, inside)], kernel)


def _spread(written: Sequence[set[str] | None], kernel: ir.Kernel) -> tuple[frozenset[str], ...]:
    """Return the operators of lines from what each writes; None for a line without operators."""
    normal = normalise(kernel)
    named, _ = canonical(normal)
    origins = _origins(named, normal, set().union(*(names or () for names in written)))
    line_ops: list[frozenset[str]] = []
    pending = frozenset[str]()
    for names in reversed(written):
        mine = frozenset[str]().union(*(origins[n] for n in names or () if n in origins))
        pending = mine or pending
        line_ops.append(frozenset() if names is None else pending)
    return tuple(reversed(line_ops))


def _of_block(line: str) -> set[str] | None:
    """Return the tensor that a line of a thread block writes; None for lines of thread indices.

    A part in shared memory or registers counts: `t7`, `t7_parts`, `t7_sums_3`.
    """
    if not line.startswith(_BLOCK_BODY) or _WHO.match(line):
        return None
    store = _BLOCK_STORE.match(line)
    return {store.group(1)} if store else set()


def _origins(named: ir.Kernel, normal: ir.Kernel, written: set[str]) -> dict[str, frozenset[str]]:
    """Return the operators of each written tensor, with those of its unwritten inputs."""
    own: dict[str, frozenset[str]] = {}
    for compute, other in zip(named.computes, normal.computes, strict=True):
        own[compute.out] = own.get(compute.out, frozenset()) | other.origin
        for read in ir.reads(compute.expr):
            if read.tensor not in written and read.tensor != compute.out:
                own[compute.out] |= own.get(read.tensor, frozenset())
    return own


_BODY = " " * 8  # inside of the loop over tasks
_THREADS = "@cuda.jit"
_BLOCK_BODY = " " * 4
_WHO = re.compile(r"\s+(?:t_\w+|_thread|_block) = ")
_BLOCK_STORE = re.compile(r"\s+(?:store2\()?([a-z]+\d*)(?:_\w+)?(?:(?:\[.*\])? = |, )")
_STORE = re.compile(r"\bst_\w+\((\w+)")
# A contraction's sums and its output are named after its tensor.
_CONTRACT = re.compile(r"\bcontract\d+\w*\(.*, \((\w+)")
_BESIDE = re.compile(r"\b(\w+?)_(?:seg|rows|acc)\b")
# A loop of vectors is declared with the operands that it stores to, and called with all of them.
_DECLARED = re.compile(r"^(\w+) = \w+\(")
_STORED = re.compile(r"\b(?:Stored|Folded)\(operand=(\d+)")
_CALL = re.compile(r"^\s+(?:\w+ = )?(\w+)\((?:.*?, )?\((.*)\)\)$")


def _stores_of(lines: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the operands that each declared function stores to, if its declaration shows them."""
    heads = ((_DECLARED.match(line), line) for line in lines)
    return {m.group(1): tuple(map(int, _STORED.findall(line))) for m, line in heads if m}


def _written(line: str, stores: Mapping[str, tuple[int, ...]]) -> set[str]:
    """Return the tensors that a line writes; all its operands if the stores are unknown."""
    names = [m.group(1) for m in _STORE.finditer(line)]
    if contract := _CONTRACT.search(line):
        names += [contract.group(1), *_BESIDE.findall(line)]
    elif (call := _CALL.match(line)) and call.group(1) in stores:
        operands = [part.split()[0].strip("(") for part in _parts(call.group(2)) if part.strip()]
        stored = [n for n in stores[call.group(1)] if n < len(operands)]
        names += [operands[n] for n in stored] if stored else operands
    return {_BESIDE.sub(r"\1", name) for name in names}


def _parts(text: str) -> list[str]:
    """Split a tuple's text at the commas outside all brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def table(rows: SourceRows) -> Table:
    """Return one row per line."""
    return Table(
        ("line", rows.language),
        tuple((i + 1, line) for i, line in enumerate(rows.lines)),
        (rows.ops,) * len(rows.lines),
        f"{rows.kernel}: {len(rows.lines)} lines",
    )


def figure(rows: SourceRows, limit: int = 60) -> Svg:
    """Draw the first lines."""
    shown = rows.lines[:limit]
    marks = []
    for i, line in enumerate(shown):
        marks.append(label(28, i * 17 + 12, str(i + 1), "q", anchor="end"))
        marks.append(label(40, i * 17 + 12, fit(line.replace(" ", " "), 910, mono=True), "mono i"))
    if len(rows.lines) > limit:
        marks.append(label(40, limit * 17 + 12, f"… and {len(rows.lines) - limit} lines more", "q"))
    return Svg(960, (len(shown) + 1) * 17, "".join(marks), f"{rows.language} of {rows.kernel}")


def kernel_of(s: OnShow, op: str) -> Kernel:
    """Return the kernel of an operator, else the first one; raises BadOption if there is none."""
    kernels = s.now.compiled.kernels or s.now.compiled.blocks
    if not kernels:
        raise BadOption("no kernel was generated: compile through to code")
    return next((k for k in kernels if op in k.origins), kernels[0])


def _draw(s: OnShow, op: str) -> Drawn:
    rows = data(kernel_of(s, op))
    return rows, figure(rows), table(rows)


PICTURE = Picture(
    name="codegen",
    title="Generated source",
    words="The source that was generated for a kernel: Numba, or what its target prints.",
    draw=_draw,
)
