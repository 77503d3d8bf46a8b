"""Removal and reordering of pipeline steps, checked against their requirements."""
