"""Parts of a kernel's task, and the instrumented copy of its source with time stamps."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

REST = "between them"  # addresses, ends of loops, the stamps
HEAD = "from explorer.codegen.cpu.stamps import begin, stamp"
WORDS = {  # action of a function, by the name of its maker
    "micro_kernel": "multiply",
    "window_tile": "slide windows",
    "vector_nest": "map vectors",
}


@dataclass(frozen=True, slots=True)
class SourcePart:
    """Statements from a source line on: their function, and whether they run only at an edge."""

    what: str
    line: int
    edge: bool = False

    @property
    def words(self) -> str:
        """A description in one line."""
        return f"{self.what}{' at an edge' if self.edge else ''}, line {self.line}"


@dataclass(eq=False)
class Parts:
    """A kernel's source in parts; `opened` are statements that are divided into inner parts."""

    source: str
    outputs: frozenset[str]
    tree: ast.Module = field(init=False)
    task: ast.For = field(init=False)
    makers: dict[str, str] = field(init=False)
    opened: set[ast.stmt] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        """Parse the source."""
        self.tree = ast.parse(self.source)
        self.task = _task_of(self.tree)
        self.makers = dict(_makers(self.tree.body))

    @property
    def statements(self) -> list[ast.stmt]:
        """The instrumented statements, in order."""
        return list(self._instrumented_statements(self.task.body))

    def _instrumented_statements(self, body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
        for s in body:
            if s in self.opened:
                for inner in _bodies(s):
                    yield from self._instrumented_statements(inner)
            elif self._is_substantial(s):
                yield s

    def _is_substantial(self, s: ast.stmt) -> bool:
        """Return True if a statement is more than a few instructions."""
        match s:
            case ast.For():
                return True
            case ast.If():
                return any(self._is_substantial(x) for body in _bodies(s) for x in body)
            case ast.Expr(ast.Call(ast.Name(name))):
                return name in self.makers
        return False

    def can_open(self, s: ast.stmt) -> bool:
        """Return True if a statement contains parts."""
        return any(self._is_substantial(x) for body in _bodies(s) for x in body)

    def describe_parts(self) -> tuple[SourcePart, ...]:
        """Describe each instrumented statement."""
        edges = {
            id(x)
            for s in self.opened
            if isinstance(s, ast.If)
            for inner in s.orelse
            for x in ast.walk(inner)
        }
        return tuple(
            SourcePart(self._describe(s), s.lineno, id(s) in edges) for s in self.statements
        )

    def _describe(self, s: ast.stmt) -> str:
        called = {
            self.makers[n.func.id]
            for n in ast.walk(s)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in self.makers
        }
        actions = [WORDS.get(name, name.replace("_", " ")) for name in sorted(called)]
        stored = list(dict.fromkeys(_stored(s)))
        if not actions and stored and all(name.endswith("_rows") for name in stored):
            return "find the rows"
        results = [n for n in stored if n in self.outputs]
        scratch = [n for n in stored if n not in self.outputs and not n.endswith("_rows")]
        if results:
            actions.append(f"write {', '.join(results)}")
        elif scratch and not called:
            verb = "pack" if all("pack" in n for n in scratch) else "make"
            actions.append(f"{verb} {', '.join(scratch)}")
        return " and ".join(actions) or "loop"

    def stamped(self, table: int) -> str:
        """Return the instrumented copy.

        It counts in a table at that address; row 0 is the time between the parts.
        """
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
    """Return the loop over the tasks of a kernel."""
    kernel = next(s for s in tree.body if isinstance(s, ast.FunctionDef))
    return next(
        s
        for s in kernel.body
        if isinstance(s, ast.For) and isinstance(s.target, ast.Name) and s.target.id == "task"
    )


def _with_stamps(
    body: Sequence[ast.stmt], numbers: dict[int, int], opened: set[int], table: int
) -> list[ast.stmt]:
    instrumented: list[ast.stmt] = []
    for s in body:
        if (n := numbers.get(id(s))) is not None:
            instrumented += [_call("stamp", table, 0), s, _call("stamp", table, n)]
            continue
        if id(s) in opened and isinstance(s, ast.For | ast.If):
            s.body = _with_stamps(s.body, numbers, opened, table)
            s.orelse = _with_stamps(s.orelse, numbers, opened, table)
        instrumented.append(s)
    return instrumented


def _call(name: str, *values: int) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Name(name, ast.Load()), [ast.Constant(v) for v in values], []))


def _bodies(s: ast.stmt) -> list[list[ast.stmt]]:
    return [s.body, s.orelse] if isinstance(s, ast.For | ast.If) else []


def _makers(head: Sequence[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield the functions of a kernel's head with the names of their makers."""
    for s in head:
        match s:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name(maker))):
                yield name, maker


def _stored(s: ast.stmt) -> Iterator[str]:
    """Yield the arrays that stores name."""
    for node in ast.walk(s):
        match node:
            case ast.Call(ast.Name(name), [target, *_]) if name.startswith("st_"):
                first = next((n for n in ast.walk(target) if isinstance(n, ast.Name)), None)
                if first is not None:
                    yield first.id
