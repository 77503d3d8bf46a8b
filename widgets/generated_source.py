"""What was generated for one kernel: the Numba source, LLVM IR and assembly, with the operators of
each line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from explorer.ir import kernel as ir
from explorer.ir.canonical import canonical
from explorer.ir.normal import normalise
from widgets.compiled import Kernel
from widgets.svg import Svg, fit, label
from widgets.table import Table

LANGUAGES = ("numba", "llvm", "assembly")


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The lines of one kernel in one language; every line comes from the kernel's operators."""

    kernel: str
    language: str
    lines: tuple[str, ...]
    ops: tuple[str, ...]


def data(kernel: Kernel, language: str = "numba") -> SourceRows:
    """The lines; LLVM IR and assembly are made on demand."""
    text = {"numba": "source", "llvm": "llvm", "assembly": "assembly"}[language]
    lines = tuple(str(getattr(kernel, text)).rstrip("\n").split("\n"))
    return SourceRows(kernel.name, language, lines, tuple(sorted(kernel.origins)))


def instructions(assembly: SourceRows, most: int = 12) -> tuple[tuple[str, int], ...]:
    """The commonest instructions of an assembly text."""
    found = Counter(
        words[0]
        for line in assembly.lines
        if line[:1] in (" ", "\t")
        and (words := line.split())
        and not words[0].startswith((".", "#", ";"))
    )
    return tuple(found.most_common(most))


def line_origins(source: str, kernel: ir.Kernel) -> tuple[frozenset[str], ...]:
    """The source operators of each line: those of the computes whose tensors it writes.

    A line that writes nothing belongs to the next one that does, the lines before the loop over
    tasks to no operator. The source speaks of the kernel's canonical names, in the order of its
    computes.
    """
    normal = normalise(kernel)
    named, _ = canonical(normal)
    origins: dict[str, frozenset[str]] = {}
    for compute, own in zip(named.computes, normal.computes, strict=True):
        origins[compute.out] = origins.get(compute.out, frozenset()) | own.origin
    found: list[frozenset[str]] = []
    pending = frozenset[str]()
    for line in reversed(source.rstrip("\n").split("\n")):
        pending = _written(line, origins) or pending
        found.append(pending if line.startswith(_BODY) else frozenset())
    return tuple(reversed(found))


_BODY = " " * 8  # inside of the loop over tasks
_STORE = re.compile(r"\bst_\w+\((\w+)")
# A contraction names its sums' tensor by what it keeps beside it, and what it writes last.
_CONTRACT = re.compile(r"\bcontract\d+\w*\(.*, \((\w+)")
_BESIDE = re.compile(r"\b(\w+?)_(?:seg|rows|acc)\b")


def _written(line: str, origins: Mapping[str, frozenset[str]]) -> frozenset[str]:
    store, contract = _STORE.search(line), _CONTRACT.search(line)
    if store is None and contract is None:
        return frozenset()
    names = [store.group(1)] if store else []
    names += [contract.group(1), *_BESIDE.findall(line)] if contract else []
    bases = {_BESIDE.sub(r"\1", name) for name in names}
    return frozenset[str]().union(*(origins[b] for b in bases if b in origins))


def table(rows: SourceRows) -> Table:
    """One row a line."""
    return Table(
        ("line", rows.language),
        tuple((i + 1, line) for i, line in enumerate(rows.lines)),
        (rows.ops,) * len(rows.lines),
        f"{rows.kernel}: {len(rows.lines)} lines",
    )


def figure(rows: SourceRows, limit: int = 60) -> Svg:
    """The first lines."""
    shown = rows.lines[:limit]
    marks = []
    for i, line in enumerate(shown):
        marks.append(label(28, i * 17 + 12, str(i + 1), "q", anchor="end"))
        marks.append(label(40, i * 17 + 12, fit(line.replace(" ", " "), 910, mono=True), "mono i"))
    if len(rows.lines) > limit:
        marks.append(label(40, limit * 17 + 12, f"… and {len(rows.lines) - limit} lines more", "q"))
    return Svg(960, (len(shown) + 1) * 17, "".join(marks), f"{rows.language} of {rows.kernel}")
