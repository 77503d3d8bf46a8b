"""Import of ONNX files; their content is untrusted until it is checked."""
