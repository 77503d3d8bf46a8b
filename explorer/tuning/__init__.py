"""Forecasts, comparisons, sensitivity, sweeps, tile search, and races with other runtimes."""
