"""Programs of `torch.export` in the language: PyTorch's ATen operators, by their names."""
