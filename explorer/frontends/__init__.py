"""Frontends: each reads a model from a source and returns a `Model` at stage IMPORTED."""
