"""The ways to group kernels: the paper's two steps, and those of its artifact."""
