"""Views and copies folded into the kernels beside them, by index maps."""
