"""Forecasts, comparisons of compilations and policies, tile search, and runtime races."""
