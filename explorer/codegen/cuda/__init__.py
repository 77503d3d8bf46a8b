"""CUDA: the tile program of a thread block as a Numba CUDA kernel, statement by statement; what its
code takes of a GPU; and its threads in Python, where there is no GPU.
"""
