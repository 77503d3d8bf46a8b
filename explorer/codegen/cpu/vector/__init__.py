"""Vectorised loops as LLVM code: maps, reductions, transposes, windows."""
