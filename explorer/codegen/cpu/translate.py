"""Direct translation of a generated kernel's Python to LLVM IR.

Numba's type inference and lowering would take half of the compile time. Kernels are printed in a
small part of Python: integers, loops over ranges, calls of intrinsics. A source that uses more
raises NotTranslated, and Numba compiles it; the meaning is the same.

`LineMarks` are debug locations, the source line of each instruction. They go into a copy for
listings; the code that runs is compiled without them. `mark_loop` marks loops that LLVM must
neither unroll nor interleave.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import fastmathpass

from explorer.codegen.cpu.translate_values import NotTranslated, Number, Values
from explorer.python_source import parse

MARK = re.compile(r'^(!\d+) = !\{ !"loop as it is \d+" \}$', re.MULTILINE)
AS_THEY_ARE = """
!1000000 = !{!"llvm.loop.unroll.disable"}
!1000001 = !{!"llvm.loop.interleave.count", i32 1}
"""
I64 = ir.IntType(64)
SIGNATURE = "types.void(types.int64, types.int64, types.uintp)"
ARGUMENTS = (types.int64, types.int64, types.uint64)
SHORT = "_r"  # iterates over the rows of one register tile in L1
REPLACES = ir.IntType(32)(2)  # LLVM's merge behaviour of a module flag
DEBUG_INFO_VERSION, DWARF_VERSION = 3, 4


def translate(
    source: str,
    function: str,
    symbol: str,
    *,
    marked: bool = False,
    functions: Mapping[str, Any] | None = None,
) -> str:
    """Return the LLVM IR of `void symbol(int64, int64, uint64)` for `function` of the source.

    `marked`: each instruction has the source line that it comes from. `functions`: intrinsics
    instead of those that the source imports. Raises NotTranslated if Numba is needed.
    """
    tree = parse(source)
    definition = next(s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == function)
    tree.body.remove(definition)
    flags = _flags_of(definition)
    space: dict[str, Any] = {}
    exec(compile(tree, "<head of a kernel>", "exec"), space)
    space |= functions or {}
    module = ir.Module(symbol)
    module.triple = llvm.get_process_triple()
    kind = ir.FunctionType(ir.VoidType(), [I64] * len(ARGUMENTS))
    function_ir = ir.Function(module, kind, symbol)
    function_ir.attributes.add("nounwind")
    _Statements(
        function_ir, definition, space, LineMarks(function_ir, definition) if marked else None
    ).write()
    for visitor in (fastmathpass.FastFloatBinOpVisitor, fastmathpass.FastFloatCallVisitor):
        visitor(flags).visit_Function(function_ir)
    return with_loop_metadata(str(module))


def _flags_of(function: ast.FunctionDef) -> list[str]:
    """Return the floating-point flags of a function with a `cfunc` decorator of our signature."""
    match function.decorator_list:
        case [ast.Call(ast.Name("cfunc"), [signature], keywords)]:
            options = {k.arg: ast.literal_eval(k.value) for k in keywords}
            flags, model = options.pop("fastmath", set()), options.pop("error_model", "python")
            plain = model == "numpy" and not options.pop("boundscheck", False) and not options
            if plain and ast.unparse(signature) == SIGNATURE and isinstance(flags, set):
                return sorted(flags)
    raise NotTranslated(f"the decorator of {function.name}")


class _Statements:
    """The translator of one function's body."""

    def __init__(
        self, function: Any, tree: ast.FunctionDef, space: dict[str, Any], marks: LineMarks | None
    ) -> None:
        """Create the blocks of a function, with its arguments as locals."""
        self.tree = tree
        self.marks = marks
        self.entry = function.append_basic_block("entry")
        self.first = function.append_basic_block("body")
        self.b = ir.IRBuilder(self.first)
        self.values = Values(self.b, self.entry, space)
        self.latches: list[Any] = []  # branch targets of `continue`, the innermost loop last
        self.short = 0  # number of short loops around
        for name, value, kind in zip(tree.args.args, function.args, ARGUMENTS, strict=True):
            self.values.assign(name.arg, Number(value, kind))

    def write(self) -> None:
        """Translate the body."""
        self.block(self.tree.body)
        self.b.ret_void()
        ir.IRBuilder(self.entry).branch(self.first)

    def block(self, statements: list[ast.stmt]) -> None:
        """Translate statements in order."""
        around = self.b.debug_metadata
        for s in statements:
            if self.marks is not None:
                self.b.debug_metadata = self.marks.at(s)
            self.statement(s)
        self.b.debug_metadata = around

    def statement(self, s: ast.stmt) -> None:
        """Translate one statement."""
        match s:
            case ast.Assign(targets, value):
                number = self.values.value(value)
                for target in targets:
                    self.values.assign(_name_of(target), number)
            case ast.AugAssign(ast.Name(name), op, value):
                self.values.assign(name, self.values.value(ast.BinOp(ast.Name(name), op, value)))
            case ast.Expr(ast.Call() as call):
                self.values.call(call)
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), limits, []), body, []):
                self.loop(name, limits, body)
            case ast.If(test, body, orelse):
                self.branch(self.values.truth(test), body, orelse)
            case ast.Continue() if self.latches:
                self.b.branch(self.latches[-1])
                self.b.position_at_end(self.b.append_basic_block("unreached"))
            case _:
                raise NotTranslated(f"the statement {ast.unparse(s).splitlines()[0]}")

    def loop(self, name: str, limits: list[ast.expr], body: list[ast.stmt]) -> None:
        """Translate `for name in range(...)` with a positive constant step.

        It has LLVM's canonical form: a test before the loop, the next one at its end.
        """
        b = self.b
        parts = [self.values.integer(g) for g in limits]
        first, last = (I64(0), parts[0]) if len(parts) == 1 else parts[:2]
        step = parts[2] if len(parts) == 3 else I64(1)
        if not isinstance(step, ir.Constant) or step.constant <= 0:
            raise NotTranslated("a range whose step is no positive constant")
        top, latch, after = (b.append_basic_block(n) for n in ("loop", "again", "after"))
        b.cbranch(b.icmp_signed("<", first, last), top, after)
        before = b.block
        b.position_at_end(top)
        at = b.phi(I64)
        at.add_incoming(first, before)
        self.values.assign(name, Number(at, types.int64))
        self.latches.append(latch)
        self.short += name == SHORT
        self.block(body)
        b.branch(self.latches.pop())
        b.position_at_end(latch)
        following = b.add(at, step, flags=["nsw"])
        at.add_incoming(following, latch)
        end = b.cbranch(b.icmp_signed("<", following, last), top, after)
        if self.short:  # unrolling would multiply the code, for few rows of few vectors
            mark_loop(b.module, end)
        self.short -= name == SHORT
        b.position_at_end(after)

    def branch(self, test: Any, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        """Translate `if`."""
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


class LineMarks:
    """The debug locations of one function, which was translated from `tree`."""

    def __init__(self, function_ir: Any, tree: ast.FunctionDef) -> None:
        """Create the debug information of a function in its module."""
        self.module = module = function_ir.module
        file = module.add_debug_info("DIFile", {"filename": "kernel", "directory": ""})
        unit = module.add_debug_info(
            "DICompileUnit",
            {
                "language": ir.DIToken("DW_LANG_Python"),
                "file": file,
                "producer": "ironworks",
                "runtimeVersion": 0,
                "isOptimized": True,
                "emissionKind": ir.DIToken("LineTablesOnly"),
            },
            is_distinct=True,
        )
        kind = module.add_debug_info("DISubroutineType", {"types": module.add_metadata([])})
        self.function = module.add_debug_info(
            "DISubprogram",
            {
                "name": function_ir.name,
                "scope": file,
                "file": file,
                "line": tree.lineno,
                "scopeLine": tree.lineno,
                "type": kind,
                "isLocal": False,
                "isDefinition": True,
                "isOptimized": True,
                "unit": unit,
            },
            is_distinct=True,
        )
        function_ir.set_metadata("dbg", self.function)
        module.add_named_metadata("llvm.dbg.cu", unit)
        versions = ("Debug Info Version", DEBUG_INFO_VERSION), ("Dwarf Version", DWARF_VERSION)
        for name, number in versions:
            flag = module.add_metadata([REPLACES, name, ir.IntType(32)(number)])
            module.add_named_metadata("llvm.module.flags", flag)

    def at(self, statement: ast.stmt) -> Any:
        """Return the location of a statement."""
        place = {
            "line": statement.lineno,
            "column": statement.col_offset + 1,
            "scope": self.function,
        }
        return self.module.add_debug_info("DILocation", place)


def mark_loop(module: ir.Module, end: Any) -> None:
    """Mark the loop that a branch ends, so that it is neither unrolled nor interleaved.

    `with_loop_metadata` turns the mark into metadata; until then, and if Numba compiles it, the
    mark has no effect.
    """
    name = ir.MetaDataString(module, f"loop as it is {len(module.metadata)}")
    end.set_metadata("llvm.loop", module.add_metadata([name]))


def with_loop_metadata(text: str) -> str:
    """Return a module's text with the metadata of each marked loop.

    llvmlite cannot write self-referential metadata.
    """
    return MARK.sub(r"\1 = distinct !{\1, !1000000, !1000001}", text) + AS_THEY_ARE
