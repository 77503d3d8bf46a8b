"""Models of Cocktailer's paper (Zhang et al., OSDI 2023), with their loops and branches.

Each is written once in Python over arrays: traced it is a model, on NumPy it runs eagerly.
"""
