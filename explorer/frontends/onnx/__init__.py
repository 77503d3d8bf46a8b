"""Import of ONNX graphs: scopes, functions, control flow, older operator sets."""
