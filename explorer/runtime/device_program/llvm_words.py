"""Python over machine words as LLVM IR: the small part of it that the interpreter is written in.

Every value is an int64; a condition is one that is not 0. Functions have loops, branches, early
returns and calls of one another and of intrinsics, and mean what Python means by them; nothing
else is translated. Numba, which could do it too, takes 6 s for what takes 0.3 s here.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NoReturn

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core.extending import _Intrinsic

I64 = ir.IntType(64)
ZERO, ONE = I64(0), I64(1)
COMPARISONS = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}


@dataclass(frozen=True, slots=True)
class WordFunction:
    """A function that is translated, never called from Python. `inline`: at every place of a
    call.
    """

    python: Callable[..., Any]
    inline: bool

    @property
    def tree(self) -> ast.FunctionDef:
        """Its text, parsed."""
        found = ast.parse(textwrap.dedent(inspect.getsource(self.python))).body[0]
        assert isinstance(found, ast.FunctionDef)
        return found


def words(function: Callable[..., Any]) -> Any:
    """Decorates a function of the interpreter."""
    return WordFunction(function, inline=False)


def inlined(function: Callable[..., Any]) -> Any:
    """Decorates one that is a part of those which call it."""
    return WordFunction(function, inline=True)


def module_text(entry: WordFunction, symbol: str) -> str:
    """The LLVM IR of the entry under a symbol, with all that it calls."""
    module = ir.Module(symbol)
    module.triple = llvm.get_process_triple()
    made: dict[WordFunction, Any] = {}

    def function(f: WordFunction) -> Any:
        if f not in made:
            tree = f.tree
            has_result = any(isinstance(s, ast.Return) and s.value for s in ast.walk(tree))
            kind = ir.FunctionType(
                I64 if has_result else ir.VoidType(), [I64] * len(tree.args.args)
            )
            made[f] = ir.Function(module, kind, symbol if f is entry else f.python.__name__)
            made[f].linkage = "" if f is entry else "internal"
            made[f].attributes.add("nounwind")
            if f.inline:
                made[f].attributes.add("alwaysinline")
            _Body(made[f], tree, f.python.__globals__, function).write()
        return made[f]

    function(entry)
    return str(module)


class _Context:
    """What an intrinsic asks of Numba's context while it writes its code."""

    def get_dummy_value(self) -> Any:
        """The result of what has none."""
        return None


class _Body:
    """Writes the body of one function. Locals are stack slots, which LLVM turns into registers."""

    def __init__(
        self, made: Any, tree: ast.FunctionDef, space: dict[str, Any], function: Callable[..., Any]
    ) -> None:
        self.made, self.tree, self.space, self.function = made, tree, space, function
        self.entry = made.append_basic_block("entry")
        self.first = made.append_basic_block("body")
        self.b = ir.IRBuilder(self.first)
        self.slots: dict[str, Any] = {}
        self.ends: list[Any] = []  # where `break` goes, the innermost loop last
        for name, value in zip(tree.args.args, made.args, strict=True):
            self.assign(name.arg, value)

    def write(self) -> None:
        """All of it."""
        self.block(self.tree.body)
        self.end(None)
        ir.IRBuilder(self.entry).branch(self.first)

    def end(self, value: Any) -> None:
        if isinstance(self.made.function_type.return_type, ir.VoidType):
            self.b.ret_void()
        else:
            self.b.ret(ZERO if value is None else value)

    def assign(self, name: str, value: Any) -> None:
        if name not in self.slots:
            self.slots[name] = ir.IRBuilder(self.entry).alloca(I64, name=name)
        self.b.store(value, self.slots[name])

    def block(self, statements: list[ast.stmt]) -> None:
        for s in statements:
            self.statement(s)

    def statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
                found = [self.value(v) for v in values]
                for target, value in zip(targets, found, strict=True):
                    self.assign(_name_of(target), value)
            case ast.Assign([target], value):
                self.assign(_name_of(target), self.value(value))
            case ast.AugAssign(ast.Name(name) as target, op, value):
                self.assign(name, self.operation(op, self.value(_read(target)), self.value(value)))
            case ast.Expr(ast.Constant(str())):
                pass  # what it says of itself
            case ast.Expr(ast.Call() as call):
                self.call(call)
            case ast.Return(value):
                self.end(None if value is None else self.value(value))
                self.unreached()
            case ast.If(test, body, orelse):
                self.branch(test, lambda: self.block(body), lambda: self.block(orelse))
            case ast.While(test, body, []):
                self.loop(lambda: self.truth(test), lambda: self.block(body))
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), given, []), body, []):
                self.count(name, [self.value(g) for g in given], body)
            case ast.Break() if self.ends:
                self.b.branch(self.ends[-1])
                self.unreached()
            case _:
                _refuse(s)

    def unreached(self) -> None:
        self.b.position_at_end(self.b.append_basic_block("unreached"))

    def branch(
        self, test: ast.expr, then: Callable[[], object], orelse: Callable[[], object]
    ) -> None:
        yes, no, after = (self.b.append_basic_block(n) for n in ("then", "else", "after"))
        self.b.cbranch(self.truth(test), yes, no)
        for block, write in ((yes, then), (no, orelse)):
            self.b.position_at_end(block)
            write()
            self.b.branch(after)
        self.b.position_at_end(after)

    def loop(self, goes_on: Callable[[], Any], body: Callable[[], object]) -> None:
        top, inside, after = (self.b.append_basic_block(n) for n in ("loop", "inside", "after"))
        self.b.branch(top)
        self.b.position_at_end(top)
        self.b.cbranch(goes_on(), inside, after)
        self.b.position_at_end(inside)
        self.ends.append(after)
        body()
        self.ends.pop()
        self.b.branch(top)
        self.b.position_at_end(after)

    def count(self, name: str, given: list[Any], body: list[ast.stmt]) -> None:
        first, last = (ZERO, given[0]) if len(given) == 1 else given
        at = ir.IRBuilder(self.entry).alloca(I64)
        self.b.store(first, at)

        def inside() -> None:
            now = self.b.load(at)
            self.assign(name, now)
            self.b.store(self.b.add(now, ONE), at)
            self.block(body)

        self.loop(lambda: self.b.icmp_signed("<", self.b.load(at), last), inside)

    def truth(self, e: ast.expr) -> Any:
        """A condition as one bit."""
        match e:
            case ast.Compare(x, [op], [y]) if type(op) in COMPARISONS:
                return self.b.icmp_signed(COMPARISONS[type(op)], self.value(x), self.value(y))
            case ast.UnaryOp(ast.Not(), x):
                return self.b.not_(self.truth(x))
            case ast.BoolOp(op, [x, *rest]):
                more = rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
                if isinstance(op, ast.And):
                    found = self.chosen(x, lambda: self.bit(more), lambda: ZERO)
                else:
                    found = self.chosen(x, lambda: ONE, lambda: self.bit(more))
                return self.b.icmp_signed("!=", found, ZERO)
        return self.b.icmp_signed("!=", self.value(e), ZERO)

    def bit(self, e: ast.expr) -> Any:
        """A condition as a word, 0 or 1."""
        return self.b.zext(self.truth(e), I64)

    def value(self, e: ast.expr) -> Any:
        """The word that an expression stands for."""
        match e:
            case ast.Constant(int() as value):
                return I64(int(value))
            case ast.Name(name) if name in self.slots:
                return self.b.load(self.slots[name])
            case ast.Name() | ast.Attribute():
                return I64(self.constant(e))
            case ast.UnaryOp(ast.USub(), x):
                return self.b.neg(self.value(x))
            case ast.BinOp(x, op, y):
                return self.operation(op, self.value(x), self.value(y))
            case ast.Compare() | ast.UnaryOp(ast.Not()):
                return self.bit(e)
            case ast.IfExp(test, x, y):
                return self.chosen(test, lambda: self.value(x), lambda: self.value(y))
            case ast.Call():
                return self.call(e)
        _refuse(e)

    def chosen(self, test: ast.expr, x: Callable[[], Any], y: Callable[[], Any]) -> Any:
        """One of two words, of which the other is not computed."""
        slot = ir.IRBuilder(self.entry).alloca(I64)
        self.branch(test, lambda: self.b.store(x(), slot), lambda: self.b.store(y(), slot))
        return self.b.load(slot)

    def constant(self, e: ast.expr) -> int:
        match e:
            case ast.Name(name) if isinstance(self.space.get(name), int):
                return int(self.space[name])
            case ast.Attribute(ast.Name(name), field) if isinstance(
                self.space.get(name), ModuleType
            ):
                return int(getattr(self.space[name], field))
        _refuse(e)

    def operation(self, op: ast.operator, x: Any, y: Any) -> Any:
        b = self.b
        match op:
            case ast.Add():
                return b.add(x, y)
            case ast.Sub():
                return b.sub(x, y)
            case ast.Mult():
                return b.mul(x, y)
            case ast.BitAnd():
                return b.and_(x, y)
            case ast.FloorDiv():
                return b.sub(b.sdiv(x, y), b.zext(self.is_negative(b.srem(x, y)), I64))
            case ast.Mod():
                rest = b.srem(x, y)
                return b.select(self.is_negative(rest), b.add(rest, y), rest)
        _refuse(op)

    def is_negative(self, rest: Any) -> Any:
        """Whether LLVM's division by a positive number, as all are here, rounded up."""
        return self.b.icmp_signed("<", rest, ZERO)

    def call(self, e: ast.Call) -> Any:
        """A call of another function, of an intrinsic, or of `max` and `min`."""
        if not isinstance(e.func, ast.Name) or e.keywords:
            _refuse(e)
        name = e.func.id
        args = [self.value(a) for a in e.args]
        match self.space.get(name):
            case WordFunction() as found:
                return self.b.call(self.function(found), args)
            case _Intrinsic() as found:
                signature, write = found._defn(None, *[types.int64] * len(args))
                return write(_Context(), self.b, signature, args)
            case None if name in ("max", "min") and len(args) == 2:
                test = self.b.icmp_signed(">" if name == "max" else "<", *args)
                return self.b.select(test, *args)
        _refuse(e)


def _name_of(target: ast.expr) -> str:
    if not isinstance(target, ast.Name):
        _refuse(target)
    return target.id


def _read(name: ast.Name) -> ast.Name:
    return ast.Name(name.id, ast.Load())


def _refuse(node: ast.AST) -> NoReturn:
    raise TypeError(f"the interpreter's language has no {ast.unparse(node)}")
