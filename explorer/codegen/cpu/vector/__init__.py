"""Loops over vectors as LLVM code: maps, reductions, transposes, windows."""
