"""Flat frozen programs, from graph operators to tile programs (Relax, ASPLOS 2025, section 3)."""
