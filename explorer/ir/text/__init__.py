"""Programs, kernels and tile programs as text, and text read back."""
