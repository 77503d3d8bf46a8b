"""The models with control flow as PyTorch and JAX write them, and a process that runs them.

Nothing here imports the compiler: it runs in an environment of its own.
"""
