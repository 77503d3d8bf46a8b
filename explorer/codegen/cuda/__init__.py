"""CUDA: thread-block tile programs as Numba CUDA kernels, statement by statement.

Also the GPU resources that their code takes, and a simulator of the threads in Python.
"""
