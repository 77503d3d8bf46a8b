"""Models written in Python over arrays: tracing, staging of control flow, and NumPy's functions."""
