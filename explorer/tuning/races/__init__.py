"""Races of whole models: answers compared, times in turns, rows kept."""
