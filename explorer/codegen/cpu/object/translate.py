"""The Python of a generated kernel as LLVM IR at once, without Numba's type inference and lowering,
which take half of the compile time.

Kernels are printed in a small part of Python: whole numbers, loops over ranges, calls of
intrinsics. What uses more than that raises NotTranslated, and is left to Numba; the code means the
same either way.
"""

from __future__ import annotations

import ast
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import fastmathpass

from explorer.codegen.cpu.loop_marks import leave_as_it_is, with_wishes
from explorer.codegen.cpu.math.conversions import NotTranslated, Number
from explorer.codegen.cpu.object.line_marks import LineMarks
from explorer.codegen.cpu.object.translate_values import Values
from explorer.python_source import parse

I64 = ir.IntType(64)
SIGNATURE = "types.void(types.int64, types.int64, types.uintp)"
ARGUMENTS = (types.int64, types.int64, types.uint64)
SHORT = "_r"  # iterates over the rows of one register tile in L1


def translate(source: str, function: str, symbol: str, *, marked: bool = False) -> str:
    """The LLVM IR of `void symbol(int64, int64, uint64)`, which does what `function` of the source
    does. `marked`: each instruction names the line of the source that it comes from.

    Raises NotTranslated where Numba is needed.
    """
    tree = parse(source)
    found = next(s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == function)
    tree.body.remove(found)
    flags = _flags_of(found)
    space: dict[str, Any] = {}
    exec(compile(tree, "<head of a kernel>", "exec"), space)
    module = ir.Module(symbol)
    module.triple = llvm.get_process_triple()
    kind = ir.FunctionType(ir.VoidType(), [I64] * len(ARGUMENTS))
    made = ir.Function(module, kind, symbol)
    made.attributes.add("nounwind")
    _Statements(made, found, space, LineMarks(made, found) if marked else None).write()
    for visitor in (fastmathpass.FastFloatBinOpVisitor, fastmathpass.FastFloatCallVisitor):
        visitor(flags).visit_Function(made)
    return with_wishes(str(module))


def _flags_of(function: ast.FunctionDef) -> list[str]:
    """The floating-point flags of a function that a `cfunc` decorator of our signature compiles."""
    match function.decorator_list:
        case [ast.Call(ast.Name("cfunc"), [signature], keywords)]:
            given = {k.arg: ast.literal_eval(k.value) for k in keywords}
            flags, model = given.pop("fastmath", set()), given.pop("error_model", "python")
            plain = model == "numpy" and not given.pop("boundscheck", False) and not given
            if plain and ast.unparse(signature) == SIGNATURE and isinstance(flags, set):
                return sorted(flags)
    raise NotTranslated(f"how {function.name} is decorated")


class _Statements:
    """Writes the body of one function."""

    def __init__(
        self, made: Any, tree: ast.FunctionDef, space: dict[str, Any], marks: LineMarks | None
    ) -> None:
        self.tree = tree
        self.marks = marks
        self.entry = made.append_basic_block("entry")
        self.first = made.append_basic_block("body")
        self.b = ir.IRBuilder(self.first)
        self.values = Values(self.b, self.entry, space)
        self.again: list[Any] = []  # where `continue` goes, the innermost loop last
        self.short = 0  # loops around that are short
        for name, value, kind in zip(tree.args.args, made.args, ARGUMENTS, strict=True):
            self.values.assign(name.arg, Number(value, kind))

    def write(self) -> None:
        """All of it."""
        self.block(self.tree.body)
        self.b.ret_void()
        ir.IRBuilder(self.entry).branch(self.first)

    def block(self, statements: list[ast.stmt]) -> None:
        """Statements in order."""
        around = self.b.debug_metadata
        for s in statements:
            if self.marks is not None:
                self.b.debug_metadata = self.marks.at(s)
            self.statement(s)
        self.b.debug_metadata = around

    def statement(self, s: ast.stmt) -> None:
        """One statement."""
        match s:
            case ast.Assign(targets, value):
                found = self.values.value(value)
                for target in targets:
                    self.values.assign(_name_of(target), found)
            case ast.AugAssign(ast.Name(name), op, value):
                self.values.assign(name, self.values.value(ast.BinOp(ast.Name(name), op, value)))
            case ast.Expr(ast.Call() as call):
                self.values.call(call)
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), given, []), body, []):
                self.loop(name, given, body)
            case ast.If(test, body, orelse):
                self.branch(self.values.truth(test), body, orelse)
            case ast.Continue() if self.again:
                self.b.branch(self.again[-1])
                self.b.position_at_end(self.b.append_basic_block("unreached"))
            case _:
                raise NotTranslated(f"the statement {ast.unparse(s).splitlines()[0]}")

    def loop(self, name: str, given: list[ast.expr], body: list[ast.stmt]) -> None:
        """`for name in range(...)` with a step that is a positive number, as LLVM likes loops best:
        a test before, the next one at the end.
        """
        b = self.b
        parts = [self.values.whole(g) for g in given]
        first, last = (I64(0), parts[0]) if len(parts) == 1 else parts[:2]
        step = parts[2] if len(parts) == 3 else I64(1)
        if not isinstance(step, ir.Constant) or step.constant <= 0:
            raise NotTranslated("a range whose step is no positive number")
        top, again, after = (b.append_basic_block(n) for n in ("loop", "again", "after"))
        b.cbranch(b.icmp_signed("<", first, last), top, after)
        before = b.block
        b.position_at_end(top)
        at = b.phi(I64)
        at.add_incoming(first, before)
        self.values.assign(name, Number(at, types.int64))
        self.again.append(again)
        self.short += name == SHORT
        self.block(body)
        b.branch(self.again.pop())
        b.position_at_end(again)
        following = b.add(at, step, flags=["nsw"])
        at.add_incoming(following, again)
        end = b.cbranch(b.icmp_signed("<", following, last), top, after)
        if self.short:  # unrolled it would be many times the code, for few rows of few vectors
            leave_as_it_is(b.module, end)
        self.short -= name == SHORT
        b.position_at_end(after)

    def branch(self, test: Any, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        """`if`."""
        b = self.b
        yes, no, after = (b.append_basic_block(n) for n in ("then", "else", "after"))
        b.cbranch(test, yes, no)
        for block, statements in ((yes, body), (no, orelse)):
            b.position_at_end(block)
            self.block(statements)
            b.branch(after)
        b.position_at_end(after)


def _name_of(target: ast.expr) -> str:
    if not isinstance(target, ast.Name):
        raise NotTranslated(f"an assignment to {ast.unparse(target)}")
    return target.id
