"""Functions written twice, in `explorer.np` or an ONNX operator and in PyTorch: one table a file."""
