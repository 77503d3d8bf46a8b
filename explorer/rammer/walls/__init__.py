"""Walls: simulation, statistics, and manual construction."""
