"""Marks on a kernel's LLVM IR that say which line of its source each instruction comes from, for a
copy that is only looked at: the code that runs is made without them.
"""

from __future__ import annotations

import ast
from typing import Any

from llvmlite import ir

REPLACES = ir.IntType(32)(2)  # how a module's flag behaves where two modules are joined: LLVM's
DEBUG_INFO_VERSION, DWARF_VERSION = 3, 4


class LineMarks:
    """The marks of one function, which was made from `tree`."""

    def __init__(self, made: Any, tree: ast.FunctionDef) -> None:
        self.module = module = made.module
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
                "name": made.name,
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
        made.set_metadata("dbg", self.function)
        module.add_named_metadata("llvm.dbg.cu", unit)
        versions = ("Debug Info Version", DEBUG_INFO_VERSION), ("Dwarf Version", DWARF_VERSION)
        for name, number in versions:
            flag = module.add_metadata([REPLACES, name, ir.IntType(32)(number)])
            module.add_named_metadata("llvm.module.flags", flag)

    def at(self, statement: ast.stmt) -> Any:
        """The mark of what is written for a statement."""
        place = {
            "line": statement.lineno,
            "column": statement.col_offset + 1,
            "scope": self.function,
        }
        return self.module.add_debug_info("DILocation", place)
