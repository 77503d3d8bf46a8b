"""A printed thread block's source as what its addresses are made of: sums of numbers, loops,
conditions, and the places where arrays are read and written.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeAlias

import numpy as np

from explorer.codegen.cuda.build import BlockCode
from explorer.ir.dtypes import ITEM_BYTES


@dataclass(eq=False, slots=True)
class Site:
    """An access in the source; `count` elements of `item_bytes` each thread at once."""

    phase: int
    line: int
    array: str
    store: bool
    item_bytes: int
    index: CodeType
    shared: bool
    count: int = 1


Plan: TypeAlias = list[Any]  # of ("set", name, code | None), ("ask", site), ("for", …), ("if", …)


def _where(test: Any, one: Any, other: Any) -> Any:
    return np.where(test, one, other)


def _extreme(pick: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def chosen(*values: Any) -> Any:
        found = values[0]
        for v in values[1:]:
            found = pick(found, v)
        return found

    return chosen


def _itself(value: Any) -> Any:
    return value


MEANINGS = {
    "min": _extreme(np.minimum),
    "max": _extreme(np.maximum),
    "_where": _where,
    "_both": np.logical_and,
    **{name: _itself for name in ("int64", "uint64", "int32", "uint32", "boolean")},
}


class _Vectors(ast.NodeTransformer):
    """Conditions as functions of all threads' values."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        return _called("_where", [node.test, node.body, node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        found = node.values[0]
        for value in node.values[1:]:
            found = _called("_both", [found, value])
        return found


def _called(name: str, args: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), args, [])


def _code(node: ast.expr) -> CodeType:
    found = ast.Expression(_Vectors().visit(ast.parse(ast.unparse(node), mode="eval").body))
    return compile(ast.fix_missing_locations(found), "<index>", "eval")


class Source:
    """A block's source as what matters for its addresses."""

    def __init__(self, code: BlockCode) -> None:
        kernel = next(n for n in ast.parse(code.source).body if isinstance(n, ast.FunctionDef))
        self.outputs = {t.local: ITEM_BYTES[t.dtype] for t in code.tensors}
        self.shared = dict(_shared_arrays(kernel))
        self.needed = _needed(kernel, {*self.shared, *self.outputs})
        self.phase = 1
        self.plan = self._block(kernel.body)

    def _block(self, body: Sequence[ast.stmt]) -> Plan:
        plan: Plan = []
        for s in body:
            match s:
                case ast.Expr(ast.Call(ast.Attribute(attr="syncthreads" | "syncwarp"))):
                    self.phase += 1
                case ast.Expr(ast.Call(ast.Name("store2"), [ast.Name(name), index, *values])):
                    plan += [item for value in values for item in self._asked(value)]
                    plan += self._site(name, index, True, 2)
                case ast.Assign([ast.Name(name)], value):
                    plan += self._asked(value)
                    if name in self.needed:
                        plan.append(("set", name, _known(value)))
                case ast.Assign([ast.Subscript(target, index)], value):
                    plan += self._asked(value)
                    if isinstance(target, ast.Name):
                        plan += self._site(target.id, index, True)
                case ast.For(ast.Name(name), ast.Call(ast.Name("range"), args), inner):
                    plan.append(("for", name, [_code(a) for a in args], self._block(inner)))
                case ast.If(test, inner, other):
                    plan += self._asked(test)
                    plan.append(("if", _known(test), self._block(inner), self._block(other)))
        return _joined(plan)

    def _asked(self, value: ast.expr) -> Plan:
        found: Plan = []
        for node in ast.walk(value):
            match node:
                case ast.Subscript(ast.Name(name), index):
                    found += self._site(name, index, False)
                case ast.Call(ast.Name("word2" | "word_of" as load), [ast.Name(name), *places]):
                    for index in places:
                        found += self._site(name, index, False, 2 if load == "word2" else 1)
        return found

    def _site(self, name: str, index: ast.expr, store: bool, count: int = 1) -> Plan:
        if name in self.shared:
            bytes_ = self.shared[name]
        elif store and name in self.outputs:
            bytes_ = self.outputs[name]
        else:
            return []
        shared = name in self.shared
        site = Site(self.phase, index.lineno, name, store, bytes_, _code(index), shared, count)
        return [("ask", site, _group(index) if count == 1 else None)]


_TYPES = {"boolean": 1, **{str(k): v for k, v in ITEM_BYTES.items()}}


def _shared_arrays(kernel: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    for s in ast.walk(kernel):
        match s:
            case ast.Assign(
                [ast.Name(name)],
                ast.Call(ast.Attribute(ast.Attribute(attr="shared"), "array"), [_, kind, _]),
            ):
                yield name, _TYPES[ast.unparse(kind)]


def _known(value: ast.expr) -> CodeType | None:
    """The code of a value that no data decide; None where they do."""
    for node in ast.walk(value):
        if isinstance(node, ast.Subscript | ast.Attribute) and not _is_place(node):
            return None
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            return None
    return _code(value)


def _is_place(node: ast.AST) -> bool:
    """The number of the block or of the thread."""
    return isinstance(node, ast.Attribute) and ast.unparse(node).startswith(
        ("cuda.blockIdx", "cuda.threadIdx")
    )


def _needed(kernel: ast.FunctionDef, arrays: set[str]) -> set[str]:
    """The variables that addresses, ends of loops and conditions are made of."""
    made: dict[str, set[str]] = {}
    found: set[str] = set()
    for node in ast.walk(kernel):
        match node:
            case ast.Assign([ast.Name(name)], value):
                made.setdefault(name, set()).update(_names(value))
            case ast.Subscript(ast.Name(name), index) if name in arrays:
                found |= _names(index)
            case ast.Call(ast.Name("store2"), [_, index, *_]):
                found |= _names(index)
            case ast.Call(ast.Name("word2" | "word_of"), [_, *places]):
                found |= {n for index in places for n in _names(index)}
            case ast.For(_, ast.Call(_, args)):
                found |= {n for a in args for n in _names(a)}
            case ast.If(test):
                found |= _names(test)
    left = list(found)
    while left:
        for name in made.get(left.pop(), ()):
            if name not in found:
                found.add(name)
                left.append(name)
    return found


def _names(value: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}


def _group(index: ast.expr) -> tuple[str, int, int] | None:
    """An index that is a whole number of groups, and a number: the first as text, how many elements
    a group has, and the number.
    """
    match index:
        case ast.Call(ast.Name("uint64"), [ast.BinOp(first, ast.Add(), ast.Constant(int(more)))]):
            pass
        case ast.Call(ast.Name("uint64"), [first]):
            more = 0
        case _:
            return None
    match first:
        case ast.BinOp(base, ast.BitAnd(), ast.UnaryOp(ast.USub(), ast.Constant(int(count)))):
            return ast.unparse(base), count, more
    return None


def _joined(plan: Plan) -> Plan:
    """Accesses to elements beside each other, from an index on that their number divides, are one:
    the compiler makes a load of several words of them.
    """
    groups: dict[tuple[Any, ...], dict[int, list[int]]] = {}
    for n, item in enumerate(plan):
        if item[0] == "ask" and item[2] is not None:
            base, count, more = item[2]
            site = item[1]
            key = site.phase, site.array, site.store, base, count, more // count
            groups.setdefault(key, {}).setdefault(more, []).append(n)
    gone: set[int] = set()
    for (*_, count, nth), places in groups.items():
        if sorted(places) == list(range(nth * count, (nth + 1) * count)):
            first, *rest = sorted(n for found in places.values() for n in found)
            site = plan[places[nth * count][0]][1]
            site.count = count
            plan[first] = ("ask", site, None)
            gone.update(rest)
    return [item for n, item in enumerate(plan) if n not in gone]


def weight(plan: Plan) -> int:
    """How many requests one trip has, where those of loops inside are few."""
    total = 0
    for item in plan:
        if item[0] == "ask":
            total += 1
        elif item[0] == "for":
            total += 8 * weight(item[3])
        elif item[0] == "if":
            total += weight(item[2]) + weight(item[3])
    return total
