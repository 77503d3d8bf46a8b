"""Transforms of programs: simplification, layout, copies, convolution, softmax, loops, gradient."""
