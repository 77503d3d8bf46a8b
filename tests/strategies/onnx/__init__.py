"""Random ONNX graphs with their inputs."""
