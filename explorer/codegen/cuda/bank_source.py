"""The parts of a printed thread block's source that its addresses depend on.

They are sums of numbers, loops, conditions, and the places where arrays are read and written.
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
    """An access in the source to `count` elements of `item_bytes` by each thread at once."""

    phase: int
    line: int
    array: str
    store: bool
    item_bytes: int
    index: CodeType
    shared: bool
    count: int = 1


Plan: TypeAlias = list[Any]  # ("set", name, code | None), ("access", site), ("for", …), ("if", …)


def _where(test: Any, then: Any, otherwise: Any) -> Any:
    return np.where(test, then, otherwise)


def _extreme(pick: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def chosen(*values: Any) -> Any:
        extreme = values[0]
        for v in values[1:]:
            extreme = pick(extreme, v)
        return extreme

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
    """A rewrite of conditions to functions of all threads' values."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """Replace a conditional expression by `_where`."""
        self.generic_visit(node)
        return _call("_where", [node.test, node.body, node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Replace a conjunction by calls of `_both`."""
        self.generic_visit(node)
        conjunction = node.values[0]
        for value in node.values[1:]:
            conjunction = _call("_both", [conjunction, value])
        return conjunction


def _call(name: str, args: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), args, [])


def _code(node: ast.expr) -> CodeType:
    expression = ast.Expression(_Vectors().visit(ast.parse(ast.unparse(node), mode="eval").body))
    return compile(ast.fix_missing_locations(expression), "<index>", "eval")


class Source:
    """The access plan of a block's source."""

    def __init__(self, code: BlockCode) -> None:
        """Create the plan from the source of a block."""
        kernel = next(n for n in ast.parse(code.source).body if isinstance(n, ast.FunctionDef))
        self.outputs = {t.local: ITEM_BYTES[t.dtype] for t in code.tensors}
        self.shared = dict(_shared_arrays(kernel))
        self.needed = _address_variables(kernel, {*self.shared, *self.outputs})
        self.phase = 1
        self.plan = self._block(kernel.body)

    def _block(self, body: Sequence[ast.stmt]) -> Plan:
        """Return the plan of a list of statements, and count its syncs."""
        plan: Plan = []
        for s in body:
            match s:
                case ast.Expr(ast.Call(ast.Attribute(attr="syncthreads" | "syncwarp"))):
                    self.phase += 1
                case ast.Expr(ast.Call(ast.Name("store2"), [ast.Name(name), index, *values])):
                    plan += [item for value in values for item in self._reads(value)]
                    plan += self._site(name, index, True, 2)
                case ast.Assign([ast.Name(name)], value):
                    plan += self._reads(value)
                    if name in self.needed:
                        plan.append(("set", name, _data_independent(value)))
                case ast.Assign([ast.Subscript(target, index)], value):
                    plan += self._reads(value)
                    if isinstance(target, ast.Name):
                        plan += self._site(target.id, index, True)
                case ast.For(ast.Name(name), ast.Call(ast.Name("range"), args), inner):
                    plan.append(("for", name, [_code(a) for a in args], self._block(inner)))
                case ast.If(test, inner, other):
                    plan += self._reads(test)
                    plan.append(
                        ("if", _data_independent(test), self._block(inner), self._block(other))
                    )
        return _merge_accesses(plan)

    def _reads(self, value: ast.expr) -> Plan:
        """Return the accesses that read arrays in an expression."""
        plan: Plan = []
        for node in ast.walk(value):
            match node:
                case ast.Subscript(ast.Name(name), index):
                    plan += self._site(name, index, False)
                case ast.Call(ast.Name("word2" | "word_of" as load), [ast.Name(name), *places]):
                    for index in places:
                        plan += self._site(name, index, False, 2 if load == "word2" else 1)
        return plan

    def _site(self, name: str, index: ast.expr, store: bool, count: int = 1) -> Plan:
        """Return the access to an array in shared memory, or a store to an output; else nothing."""
        if name in self.shared:
            bytes_ = self.shared[name]
        elif store and name in self.outputs:
            bytes_ = self.outputs[name]
        else:
            return []
        shared = name in self.shared
        site = Site(self.phase, index.lineno, name, store, bytes_, _code(index), shared, count)
        return [("access", site, _group_index(index) if count == 1 else None)]


_TYPES = {"boolean": 1, **{str(k): v for k, v in ITEM_BYTES.items()}}


def _shared_arrays(kernel: ast.FunctionDef) -> Iterator[tuple[str, int]]:
    for s in ast.walk(kernel):
        match s:
            case ast.Assign(
                [ast.Name(name)],
                ast.Call(ast.Attribute(ast.Attribute(attr="shared"), "array"), [_, kind, _]),
            ):
                yield name, _TYPES[ast.unparse(kind)]


def _data_independent(value: ast.expr) -> CodeType | None:
    """Return the code of a value that is independent of data, else None."""
    for node in ast.walk(value):
        if isinstance(node, ast.Subscript | ast.Attribute) and not _is_place(node):
            return None
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            return None
    return _code(value)


def _is_place(node: ast.AST) -> bool:
    """Return True if a node is the number of the block or of the thread."""
    return isinstance(node, ast.Attribute) and ast.unparse(node).startswith(
        ("cuda.blockIdx", "cuda.threadIdx")
    )


def _address_variables(kernel: ast.FunctionDef, arrays: set[str]) -> set[str]:
    """Return the variables that addresses, ends of loops and conditions depend on."""
    sources: dict[str, set[str]] = {}
    needed: set[str] = set()
    for node in ast.walk(kernel):
        match node:
            case ast.Assign([ast.Name(name)], value):
                sources.setdefault(name, set()).update(_names(value))
            case ast.Subscript(ast.Name(name), index) if name in arrays:
                needed |= _names(index)
            case ast.Call(ast.Name("store2"), [_, index, *_]):
                needed |= _names(index)
            case ast.Call(ast.Name("word2" | "word_of"), [_, *places]):
                needed |= {n for index in places for n in _names(index)}
            case ast.For(_, ast.Call(_, args)):
                needed |= {n for a in args for n in _names(a)}
            case ast.If(test):
                needed |= _names(test)
    left = list(needed)
    while left:
        for name in sources.get(left.pop(), ()):
            if name not in needed:
                needed.add(name)
                left.append(name)
    return needed


def _names(value: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}


def _group_index(index: ast.expr) -> tuple[str, int, int] | None:
    """Return an index in groups of elements as base text, group size and constant, else None."""
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


def _merge_accesses(plan: Plan) -> Plan:
    """Merge accesses to neighbouring elements, if their number divides the first index.

    The compiler makes one load of several words of them.
    """
    groups: dict[tuple[Any, ...], dict[int, list[int]]] = {}
    for n, item in enumerate(plan):
        if item[0] == "access" and item[2] is not None:
            base, count, more = item[2]
            site = item[1]
            key = site.phase, site.array, site.store, base, count, more // count
            groups.setdefault(key, {}).setdefault(more, []).append(n)
    removed: set[int] = set()
    for (*_, count, nth), places in groups.items():
        if sorted(places) == list(range(nth * count, (nth + 1) * count)):
            first, *merged = sorted(n for sites in places.values() for n in sites)
            site = plan[places[nth * count][0]][1]
            site.count = count
            plan[first] = ("access", site, None)
            removed.update(merged)
    return [item for n, item in enumerate(plan) if n not in removed]


def weight(plan: Plan) -> int:
    """Return the number of requests in one trip, with few trips of inner loops."""
    total = 0
    for item in plan:
        if item[0] == "access":
            total += 1
        elif item[0] == "for":
            total += 8 * weight(item[3])
        elif item[0] == "if":
            total += weight(item[2]) + weight(item[3])
    return total
