"""What two programs have different, by structure: what was added, removed, changed and moved.

Names of values tell nothing, nor do lines: a binding of one program is paired with that of the
other that computes the same of the same, then with one that is read alike, then with one that comes
from the same source operators. What is paired and equal is no difference.
"""
