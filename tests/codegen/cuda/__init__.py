"""Thread blocks as CUDA source."""
