"""Tracing of models written in Python: a function runs once on values that record its operations.

The same text runs eagerly on NumPy arrays: it is its own reference.
"""
