"""ONNX graphs as programs: scopes, functions, control flow, older operator sets."""
