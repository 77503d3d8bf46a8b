"""Weights of a few bits from float weights, with the error of each layer.

A matrix is cut into blocks along the sum of its product. Each block has a scale and, unless it is
symmetric, a zero point (Jacob et al. 2018; Dettmers et al. 2022, 8-bit optimizers via block-wise
quantization). The products become MatMulNBits.
"""
