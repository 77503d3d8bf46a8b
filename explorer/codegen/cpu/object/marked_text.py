"""LLVM IR and assembly with line marks, split into the unmarked text and its source lines."""

from __future__ import annotations

import re

from explorer.codegen.listing import Listing

_PLACE = re.compile(r"^(!\d+) = (?:distinct )?!DILocation\(line: (\d+)", re.MULTILINE)
_OPENS = re.compile(r"^(!\d+) = distinct !DISubprogram\(.*?\bline: (\d+)", re.MULTILINE)
_MARK = re.compile(r",? !dbg (!\d+)")
_METADATA = re.compile(r"^(![\w.]+) = ")
_NUMBER = re.compile(r"!\d+\b")
_LOC = re.compile(r"\t\.loc\t\d+ (\d+)")
_SECTION = re.compile(r"\t\.section\t\"?([\w.,]+)")
_OF_MARKS = re.compile(r"\t\.(?:loc|cfi_\w+|file\t\d)\b|\.(?:Ltmp|Lfunc_begin)\d+:")
_DEBUG = (".debug_", "__DWARF")
_INSTRUCTION = re.compile(r"\t[a-z]")


def llvm_listing(marked: str) -> Listing:
    """Return LLVM IR without its marks, with metadata renumbered as in an unmarked module."""
    places = {name: int(line) for name, line in (_PLACE.findall(marked) + _OPENS.findall(marked))}
    text, lines, metadata = list[str](), list[int](), dict[str, str]()
    for line in marked.rstrip("\n").split("\n"):
        if head := _METADATA.match(line):
            metadata[head.group(1)] = line
            continue
        mark = _MARK.search(line)
        text.append(_MARK.sub("", line) if mark else line)
        lines.append(places.get(mark.group(1), 0) if mark else 0)
    while text and not text[-1]:
        text.pop()
    used = _used("\n".join(text), metadata)
    names = {name: f"!{n}" for n, name in enumerate(used)}
    listing = "\n".join([*text, *([""] if used else []), *(metadata[name] for name in used)])
    listing = _NUMBER.sub(lambda m: names.get(m.group(), m.group()), listing)
    return Listing(
        f"{listing}\n",
        (*lines[: len(text)], *(0 for _ in range(listing.count("\n") + 1 - len(text)))),
    )


def _used(text: str, metadata: dict[str, str]) -> list[str]:
    """Return the metadata that a text refers to, in the order of first use."""
    used: dict[str, None] = {}
    todo = _NUMBER.findall(text)
    while todo:
        name = todo.pop(0)
        if name in metadata and name not in used:
            used[name] = None
            todo += _NUMBER.findall(metadata[name].partition(" = ")[2])
    return list(used)


def assembly_listing(marked: str) -> Listing:
    """Return assembly without its marks and the debug sections."""
    text, lines = list[str](), list[int]()
    now, skipping = 0, False
    for line in marked.rstrip("\n").split("\n"):
        if section := _SECTION.match(line):
            skipping = section.group(1).startswith(_DEBUG)
        if skipping:
            continue
        if loc := _LOC.match(line):
            now = int(loc.group(1))
        if not _OF_MARKS.match(line):
            text.append(line)
            lines.append(now if _INSTRUCTION.match(line) else 0)
    return Listing("\n".join(text) + "\n", tuple(lines))
