"""The parts of a task of a kernel, and the copy of its source that has stamps around them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

REST = "between them"  # addresses, ends of loops, the stamps
HEAD = "from explorer.codegen.cpu.stamps import begin, stamp"
WORDS = {  # of what a function is made by, what a call of it does
    "micro_kernel": "multiply",
    "window_tile": "slide windows",
    "vector_nest": "map vectors",
}


@dataclass(frozen=True, slots=True)
class Part:
    """Statements from a line of the source on: what they do, and whether only at an edge."""

    what: str
    line: int
    edge: bool = False

    @property
    def words(self) -> str:
        """In a line."""
        return f"{self.what}{' at an edge' if self.edge else ''}, line {self.line}"


@dataclass(eq=False)
class Parts:
    """A kernel's source in parts; `opened` are statements whose own parts are told instead."""

    source: str
    outputs: frozenset[str]
    tree: ast.Module = field(init=False)
    task: ast.For = field(init=False)
    made: dict[str, str] = field(init=False)
    opened: set[ast.stmt] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.source)
        self.task = _task_of(self.tree)
        self.made = dict(_made(self.tree.body))

    @property
    def statements(self) -> list[ast.stmt]:
        """What is stamped, in order."""
        return list(self._stamped(self.task.body))

    def _stamped(self, body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        for s in body:
            if s in self.opened:
                for inner in _bodies(s):
                    yield from self._stamped(inner)
            elif self._works(s):
                yield s

    def _works(self, s: ast.stmt) -> bool:
        """Whether it is more than a few instructions."""
        match s:
            case ast.For():
                return True
            case ast.If():
                return any(self._works(x) for body in _bodies(s) for x in body)
            case ast.Expr(ast.Call(ast.Name(name))):
                return name in self.made
        return False

    def can_open(self, s: ast.stmt) -> bool:
        """Whether there are parts in it."""
        return any(self._works(x) for body in _bodies(s) for x in body)

    def told(self) -> tuple[Part, ...]:
        """What each stamped statement does."""
        edges = {
            id(x)
            for s in self.opened
            if isinstance(s, ast.If)
            for inner in s.orelse
            for x in ast.walk(inner)
        }
        return tuple(Part(self._what(s), s.lineno, id(s) in edges) for s in self.statements)

    def _what(self, s: ast.stmt) -> str:
        called = {
            self.made[n.func.id]
            for n in ast.walk(s)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in self.made
        }
        found = [WORDS.get(name, name.replace("_", " ")) for name in sorted(called)]
        stored = list(dict.fromkeys(_stored(s)))
        if not found and stored and all(name.endswith("_rows") for name in stored):
            return "find the rows"
        kept = [n for n in stored if n in self.outputs]
        scratch = [n for n in stored if n not in self.outputs and not n.endswith("_rows")]
        if kept:
            found.append(f"write {', '.join(kept)}")
        elif scratch and not called:
            verb = "pack" if all("pack" in n for n in scratch) else "make"
            found.append(f"{verb} {', '.join(scratch)}")
        return " and ".join(found) or "loop"

    def stamped(self, table: int) -> str:
        """The copy: it counts in a table at that address, row 0 for what is between the parts."""
        parts = {id(s): n for n, s in enumerate(self.statements, 1)}
        tree = ast.parse(self.source)
        twins = dict(zip(map(id, ast.walk(self.tree)), ast.walk(tree), strict=True))
        task = _task_of(tree)
        numbers = {id(twins[at]): n for at, n in parts.items()}
        opened = {id(twins[id(s)]) for s in self.opened}
        task.body = [
            _call("begin", table), *_with_stamps(task.body, numbers, opened, table),
            _call("stamp", table, 0),
        ]  # fmt: skip
        tree.body.insert(0, ast.parse(HEAD).body[0])
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _task_of(tree: ast.Module) -> ast.For:
    """The loop over the tasks of a kernel."""
    kernel = next(s for s in tree.body if isinstance(s, ast.FunctionDef))
    return next(
        s
        for s in kernel.body
        if isinstance(s, ast.For) and isinstance(s.target, ast.Name) and s.target.id == "task"
    )


def _with_stamps(
    body: Sequence[ast.stmt], numbers: dict[int, int], opened: set[int], table: int
) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for s in body:
        if (n := numbers.get(id(s))) is not None:
            found += [_call("stamp", table, 0), s, _call("stamp", table, n)]
            continue
        if id(s) in opened and isinstance(s, ast.For | ast.If):
            s.body = _with_stamps(s.body, numbers, opened, table)
            s.orelse = _with_stamps(s.orelse, numbers, opened, table)
        found.append(s)
    return found


def _call(name: str, *values: int) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Name(name, ast.Load()), [ast.Constant(v) for v in values], []))


def _bodies(s: ast.stmt) -> list[list[ast.stmt]]:
    return [s.body, s.orelse] if isinstance(s, ast.For | ast.If) else []


def _made(head: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """The functions of a kernel's head, each with what makes it."""
    for s in head:
        match s:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name(maker))):
                yield name, maker


def _stored(s: ast.stmt) -> Iterator[str]:
    """The arrays that stores name."""
    for node in ast.walk(s):
        match node:
            case ast.Call(ast.Name(name), [target, *_]) if name.startswith("st_"):
                first = next((n for n in ast.walk(target) if isinstance(n, ast.Name)), None)
                if first is not None:
                    yield first.id
