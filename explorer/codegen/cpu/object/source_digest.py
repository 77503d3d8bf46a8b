"""The files that a generated source is compiled with; its cache key holds their content."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOM = "explorer.codegen"
FOLDER = Path(__file__).parents[2]
FROM_SOURCE_TO_CODE = (  # for every source
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
    """A file of this package: a hash of its text, the names it defines, and its local imports."""

    digest: bytes
    names: frozenset[str]
    imports: frozenset[str]


def generator_text(source: str) -> str:
    """Return a hash of the files that a generated source is compiled with.

    A changed helper changes the keys of the sources that call it, and no others.
    """
    imported = re.findall(rf"^from {re.escape(ROOM)}\.([\w.]+) import (.+)$", source, re.MULTILINE)
    body = frozenset(WORD.findall(re.sub(r"^from .*$", "", source, flags=re.MULTILINE)))
    called = (
        name
        for name, names in imported
        if body & (_file(name).names if names == "*" else frozenset(WORD.findall(names)))
    )
    return _hash_of(frozenset((*FROM_SOURCE_TO_CODE, *called)))


@cache
def _hash_of(names: frozenset[str]) -> str:
    """Return a hash of files and of all files that they import from this package."""
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
    """Return a parsed file of this package by its dotted name."""
    text = _path(name).read_text(encoding="utf-8")
    defined = DEFINED.findall(text)
    names = (
        word
        for function, assigned in defined
        for word in (function, *WORD.findall(assigned))
        if word
    )
    imports = (
        file for module, imported in IMPORTED.findall(text) for file in _files(module, imported)
    )
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return _File(digest, frozenset(names), frozenset(imports))


def _files(module: str, imported: str) -> list[str]:
    """Return the files that an import names: the module, or modules of a folder."""
    if _path(module).is_file():
        return [module]
    return [
        f"{module}.{word}" for word in WORD.findall(imported) if _path(f"{module}.{word}").is_file()
    ]


def _path(name: str) -> Path:
    return FOLDER.joinpath(*name.split(".")).with_suffix(".py")
