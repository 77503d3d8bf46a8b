"""Shared memory of a printed thread block: which thread asks which bank for which word."""
