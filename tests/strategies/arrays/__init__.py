"""Random programs over arrays of every rank: drawn once, run by NumPy, traced, and by PyTorch."""
