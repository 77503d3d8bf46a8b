"""Measurements: timing with intervals, and the properties of this machine."""
