"""This machine as a Device: bandwidths, overheads, and constants fitted to sample kernels."""
