"""Models written in Python: a function over arrays is run once on values that record what is done.

The same text runs eagerly on NumPy arrays: it is its own reference.
"""
