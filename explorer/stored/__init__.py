"""Whole compilations on disk: the last program with its decisions, and which code its kernels have.

What a model becomes is told by a key (`wanted`); a later process finds it under that key
(`programs`), runs no pass and compiles no kernel. Values are written as plain data (`written`,
`read`) of a literal list of types (`vocabulary`): nothing in an entry is ever run.
"""
