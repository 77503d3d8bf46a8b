"""Walls: simulated, told in numbers, laid by hand."""
