"""Views and copies folded into neighbouring kernels by index maps."""
