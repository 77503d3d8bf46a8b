"""Relax's pictures: shapes, levels, calls, fusion."""
