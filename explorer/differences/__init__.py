"""Structural difference of two programs: what was added, removed, changed and moved.

Names of values and lines of text do not matter. A binding is paired with one that computes the same
from the same inputs, then with one that is used alike, then with one from the same source
operators. A pair that is equal is no difference.
"""
