"""ONNX models in PyTorch."""
