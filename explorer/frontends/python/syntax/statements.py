"""Names that statements read and bind, live names, and early exits as assignments.

A name is live if it is read later, before it is bound again (Aho et al., Compilers, section 9.2.5).
The statements after an `if` with an exit move into the arm that falls through. So `return`, `break`
and `continue` come last and can be replaced by assignments.

    if a: return x      becomes     if a: result = x
    return y                        else: result = y
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Sequence

Names = frozenset[str]
NONE: Names = frozenset()
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def read(node: ast.AST | None) -> Names:
    """Return the names of the enclosing function that a node reads, also in inner scopes."""
    match node:
        case None:
            return NONE
        case ast.Name(name, ast.Load()):
            return frozenset((name,))
        case ast.AugAssign(ast.Name(name), _, value):
            return read(value) | {name}
        case ast.Lambda(args, body):
            return _defaults(args) | (read(body) - parameters(args))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            outside = NONE.union(*map(read, node.decorator_list), _defaults(node.args))
            inside = NONE.union(*map(read, node.body))
            return outside | (inside - bound(node.body) - parameters(node.args))
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            own = NONE.union(*(_stored(g.target) for g in node.generators))
            return NONE.union(*map(read, ast.iter_child_nodes(node))) - own
    return NONE.union(*map(read, ast.iter_child_nodes(node)))


def bound(body: Iterable[ast.AST]) -> Names:
    """Return the names that statements bind in the enclosing function."""
    return NONE.union(*map(_bound, body))


def _bound(node: ast.AST) -> Names:
    match node:
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            return frozenset((name,))
        case ast.Lambda():
            return NONE
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return NONE
        case ast.Import(names) | ast.ImportFrom(_, names):
            return frozenset(a.asname or a.name.split(".")[0] for a in names)
        case ast.ExceptHandler(_, str(name), body):
            return bound(body) | {name}
        case ast.Name(name, ast.Store()):
            return frozenset((name,))
    return bound(ast.iter_child_nodes(node))


def changed_elements(body: Iterable[ast.AST]) -> Names:
    """Return the names whose elements `x[i] = y` or `x[i] += y` changes in this function."""
    return NONE.union(*map(_changed, body))


def _changed(node: ast.AST) -> Names:
    if isinstance(node, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
        return NONE
    name = changed_name(node)
    return changed_elements(ast.iter_child_nodes(node)) if name is None else frozenset((name,))


def changed_name(node: ast.AST) -> str | None:
    """Return the name whose elements a statement changes, if it does nothing else; else None."""
    match node:
        case ast.Assign([ast.Subscript() as target]) | ast.AugAssign(ast.Subscript() as target):
            pass
        case _:
            return None
    base: ast.expr = target
    while isinstance(base, ast.Subscript):
        if any(isinstance(n, ast.Starred | ast.NamedExpr) for n in ast.walk(base.slice)):
            return None
        base = base.value
    return base.id if isinstance(base, ast.Name) else None


def parameters(args: ast.arguments) -> Names:
    """Return the names of a function's parameters."""
    several = (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
    return frozenset(a.arg for a in several if a is not None)


def _stored(target: ast.AST) -> Names:
    every = ast.walk(target)
    return frozenset(
        n.id for n in every if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    )


def _defaults(args: ast.arguments) -> Names:
    return NONE.union(*map(read, (*args.defaults, *args.kw_defaults)))


def closed_over(body: Iterable[ast.AST]) -> Names:
    """Return the names that inner functions read; as a call may come at any time, always live."""
    names = NONE
    for node in body:
        for inner in ast.walk(node):
            if isinstance(inner, (*FUNCTIONS, ast.Lambda)):
                names |= read(inner)
    return names


def live_before(body: Sequence[ast.stmt], after: Names) -> Names:
    """Return the names live before statements, given those live after."""
    for statement in reversed(body):
        after = _live(statement, after)
    return after


def live_at_head(loop: ast.While | ast.For, after: Names) -> Names:
    """Return the names live at the test of a loop, by iteration to a fixpoint."""
    test = read(loop.test) if isinstance(loop, ast.While) else NONE
    head = after | test
    while True:
        inside = live_before(loop.body, head)
        more = head | (inside - _stored(loop.target) if isinstance(loop, ast.For) else inside)
        if more == head:
            return head
        head = more


def _live(node: ast.stmt, after: Names) -> Names:
    match node:
        case ast.Return(value):
            return read(value)
        case ast.Assign(targets, value):
            remaining = after - NONE.union(*map(_plainly_stored, targets))
            return remaining | read(value) | NONE.union(*map(read, targets))
        case ast.AnnAssign(ast.Name(name), _, value) if value is not None:
            return (after - {name}) | read(value)
        case ast.If(test, body, orelse):
            return read(test) | live_before(body, after) | live_before(orelse, after)
        case ast.While():
            return live_at_head(node, live_before(node.orelse, after) | after)
        case ast.For(_, iterable):
            return live_at_head(node, live_before(node.orelse, after) | after) | read(iterable)
        case ast.FunctionDef(name):
            return (after - {name}) | read(node)
    return after | read(node)


def _plainly_stored(target: ast.expr) -> Names:
    match target:
        case ast.Name(name):
            return frozenset((name,))
        case ast.Tuple(parts) | ast.List(parts):
            return NONE.union(*map(_plainly_stored, parts))
    return NONE


MOST_GROWTH = 20  # limit of code growth: statements are copied if both arms may fall through

Replace = Callable[[ast.stmt], list[ast.stmt]]
Block = list[ast.stmt]


class IrreducibleExit(Exception):
    """Error for an exit that an assignment cannot replace; the text names it."""


def without_exits(
    body: Sequence[ast.stmt], kinds: tuple[type[ast.stmt], ...], by: Replace
) -> Block:
    """Return statements without exits of these kinds, each replaced by `by` where it stood.

    Raises IrreducibleExit if one is inside of a loop, a `try`, a `with` or a `match`.
    """
    size = _size(body)
    statements = _push_into_arms(list(body), kinds, by, size)
    return statements or [ast.Pass()]


def leaves(node: ast.stmt, kinds: tuple[type[ast.stmt], ...]) -> bool:
    """Return True if a statement contains one of these kinds.

    Inner functions are not searched. A `break` or `continue` of an inner loop belongs to that loop.
    """
    if isinstance(node, kinds):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    if isinstance(node, ast.For | ast.While):
        kinds = tuple(k for k in kinds if k is ast.Return)
    inner = (n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt | ast.ExceptHandler))
    return any(leaves(n, kinds) for n in inner)  # type: ignore[arg-type] # handlers hold statements


def _push_into_arms(
    body: Block, kinds: tuple[type[ast.stmt], ...], by: Replace, size: int
) -> Block:
    done: Block = []
    for n, node in enumerate(body):
        if isinstance(node, kinds):
            return [*done, *by(node)]
        if not leaves(node, kinds):
            done.append(node)
            continue
        if not isinstance(node, ast.If):
            name = type(node).__name__.lower()
            raise IrreducibleExit(f"a {_exit_name(node, kinds)} inside of a {name}")
        following = body[n + 1 :]
        arms = [node.body, node.orelse]
        falls_through = [not _always_exits(arm, kinds) for arm in arms]
        if all(falls_through) and size + 2 * _size(following) > MOST_GROWTH * max(size, 50):
            raise IrreducibleExit("exits in too many branches")
        new_arms = []
        for arm, continues in zip(arms, falls_through):
            more = [copy.deepcopy(r) for r in following] if all(falls_through) else following
            grown = size + _size(following) if all(falls_through) else size
            new_arms.append(_push_into_arms([*arm, *(more if continues else ())], kinds, by, grown))
        branch = ast.If(node.test, new_arms[0] or [ast.Pass()], new_arms[1])
        return [*done, ast.copy_location(branch, node)]
    return done


def _always_exits(body: Sequence[ast.stmt], kinds: tuple[type[ast.stmt], ...]) -> bool:
    """Return True if every path through the statements meets an exit."""
    for node in body:
        if isinstance(node, kinds):
            return True
        if (
            isinstance(node, ast.If)
            and _always_exits(node.body, kinds)
            and _always_exits(node.orelse, kinds)
        ):
            return True
    return False


def _exit_name(node: ast.stmt, kinds: tuple[type[ast.stmt], ...]) -> str:
    exit_ = next((n for n in ast.walk(node) if isinstance(n, kinds)), node)
    return type(exit_).__name__.lower()


def _size(body: Sequence[ast.AST]) -> int:
    return sum(1 for node in body for _ in ast.walk(node))
