"""Which files of this room a generated source is compiled with: its key holds what they say."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOM = "explorer.codegen"
FOLDER = Path(__file__).parents[2]
FROM_SOURCE_TO_CODE = (  # whatever the source
    "cpu.math.conversions",
    "cpu.object.jit_linker",
    "cpu.object.translate",
    "cpu.object.translate_values",
)
WORD = re.compile(r"[A-Za-z_]\w*")
DEFINED = re.compile(r"^(?:def (\w+)|([A-Za-z_][\w, ]*)(?:: [^=\n]+)? = )", re.MULTILINE)
IMPORTED = re.compile(
    rf"^ *from {re.escape(ROOM)}\.([\w.]+) import (\([^)]*\)|[^\n(]+)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the room: a hash of its text, the names it defines, and what it imports from the
    room.
    """

    digest: bytes
    names: frozenset[str]
    imports: frozenset[str]


def generator_text(source: str) -> str:
    """A hash of the files that a generated source is compiled with: a changed helper makes another
    key for what calls it, and for nothing else.
    """
    imported = re.findall(rf"^from {re.escape(ROOM)}\.([\w.]+) import (.+)$", source, re.MULTILINE)
    body = frozenset(WORD.findall(re.sub(r"^from .*$", "", source, flags=re.MULTILINE)))
    called = (
        name
        for name, what in imported
        if body & (_file(name).names if what == "*" else frozenset(WORD.findall(what)))
    )
    return _hash_of(frozenset((*FROM_SOURCE_TO_CODE, *called)))


@cache
def _hash_of(names: frozenset[str]) -> str:
    todo, seen = list(names), set(names)
    while todo:
        for name in _file(todo.pop()).imports - seen:
            seen.add(name)
            todo.append(name)
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(seen):
        digest.update(_file(name).digest)
    return digest.hexdigest()


@cache
def _file(name: str) -> _File:
    text = _path(name).read_text(encoding="utf-8")
    defined = DEFINED.findall(text)
    names = (word for made, assigned in defined for word in (made, *WORD.findall(assigned)) if word)
    imports = (file for module, what in IMPORTED.findall(text) for file in _files(module, what))
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return _File(digest, frozenset(names), frozenset(imports))


def _files(module: str, what: str) -> list[str]:
    """The files that an import names: the module, or modules of a folder."""
    if _path(module).is_file():
        return [module]
    return [
        f"{module}.{word}" for word in WORD.findall(what) if _path(f"{module}.{word}").is_file()
    ]


def _path(name: str) -> Path:
    return FOLDER.joinpath(*name.split(".")).with_suffix(".py")
