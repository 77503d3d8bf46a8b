"""Candidate tiles of a kernel, their modelled costs, and their ranking."""
