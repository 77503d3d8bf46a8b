"""Pictures that need measurements: kernels, a search over tiles, sizes."""
