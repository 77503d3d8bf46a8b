"""How parameters follow their gradients: optimizers, learning rates, the scale of a loss."""
