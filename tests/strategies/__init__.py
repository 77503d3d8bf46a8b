"""Generators of random programs, one module for each level of the language.

| module | values |
|---|---|
| `onnx` | ONNX graphs with their inputs; chains of operators whose integers are inputs |
| `operator_programs`, `layer_programs` | programs of graph operators: any shapes; small networks |
| `kernel_programs`, `hand_programs` | programs of kernels: compiled; with code by hand |
| `kernels` | single kernels, and tilings of them |
| `arrays`, `python_flow` | functions of arrays; Python functions with control flow |

Every generator is a function of `Choices` under `@generator`: `programs()` is a Hypothesis
strategy, `programs.of(seed)` a value, and `programs.make(choices)` part of another generator.
"""
