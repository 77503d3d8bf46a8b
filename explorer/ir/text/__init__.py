"""Printing and parsing of programs, kernels and tile programs."""
