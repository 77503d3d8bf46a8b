"""Import of `torch.export` programs: PyTorch's ATen operators, by their names."""
