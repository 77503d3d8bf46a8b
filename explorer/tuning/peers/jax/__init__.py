"""ONNX models in JAX."""
