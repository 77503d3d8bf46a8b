"""Kernels that become one: groups, why two cannot, and what a merge costs."""
