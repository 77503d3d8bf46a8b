"""Which files of this room a generated source is compiled with: its key holds what they say."""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOM = "explorer.codegen"
ALWAYS = ("conversions", "machine", "translate", "translate_values")  # from any source to code
WORD = re.compile(r"[A-Za-z_]\w*")


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
    imported = re.findall(rf"^from {re.escape(ROOM)}\.(\w+) import (.+)$", source, re.MULTILINE)
    body = frozenset(WORD.findall(re.sub(r"^from .*$", "", source, flags=re.MULTILINE)))
    called = (
        name
        for name, what in imported
        if body & (_file(name).names if what == "*" else frozenset(WORD.findall(what)))
    )
    return _hash_of(frozenset((*ALWAYS, *called)))


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
    text = (Path(__file__).parent / f"{name}.py").read_bytes()
    tree = ast.parse(text)
    names: set[str] = set()
    for statement in tree.body:
        match statement:
            case ast.FunctionDef(made):
                names.add(made)
            case ast.Assign() | ast.AnnAssign():
                stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
                names.update(n.id for n in stored if isinstance(n.ctx, ast.Store))
    imports = frozenset(found for node in ast.walk(tree) for found in _imports(node))
    return _File(hashlib.blake2b(text, digest_size=16).digest(), frozenset(names), imports)


def _imports(node: ast.AST) -> tuple[str, ...]:
    """The files of the room that a statement imports."""
    match node:
        case ast.ImportFrom(module, aliases) if module == ROOM:
            return tuple(a.name for a in aliases)
        case ast.ImportFrom(str() as module) if module.startswith(f"{ROOM}."):
            return (module.removeprefix(f"{ROOM}."),)
    return ()
