"""Operators that move, join, cut and make tensors, and compute nothing."""
