"""Pictures that a clock fills: kernels, a search over tiles, sizes."""
