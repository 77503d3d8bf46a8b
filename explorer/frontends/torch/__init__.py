"""Import of PyTorch's exported programs, by operators or as the ONNX that PyTorch writes."""
