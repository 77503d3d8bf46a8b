"""The reference interpreter: what a program of any stage computes, in NumPy."""

from __future__ import annotations

from explorer.ops.loop_nest import evaluate_kernel

__all__ = ["evaluate_kernel"]
