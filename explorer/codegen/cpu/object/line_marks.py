"""Debug locations on a kernel's LLVM IR: the source line of each instruction.

They go into a copy for listings; the code that runs is compiled without them.
"""

from __future__ import annotations

import ast
from typing import Any

from llvmlite import ir

REPLACES = ir.IntType(32)(2)  # LLVM's merge behaviour of a module flag
DEBUG_INFO_VERSION, DWARF_VERSION = 3, 4


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
