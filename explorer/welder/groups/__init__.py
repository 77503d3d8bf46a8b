"""Groups of fused kernels: merging, refusals, and the cost of a merge."""
