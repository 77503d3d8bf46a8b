"""Functions written twice, by `explorer.np` or an ONNX operator and in PyTorch: a table a file."""
