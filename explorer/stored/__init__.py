"""Whole compilations on disk: the last program with its decisions, and the keys of its kernels.

A compilation is stored under its key (`program_key`). A later process finds it under that key
(`programs`), runs no pass and compiles no kernel. Values are written as plain data of a literal
list of types (`serialize`): nothing in an entry is ever executed.
"""
