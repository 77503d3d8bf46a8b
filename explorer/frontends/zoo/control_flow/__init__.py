"""The models of Cocktailer's paper (Zhang et al., OSDI 2023), with their loops and branches.

Each is written in Python over arrays, once: traced it is a model, on NumPy it runs as it stands.
"""
