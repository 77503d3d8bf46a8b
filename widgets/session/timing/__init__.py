"""Timings of a session: settings, tiles, loops and tasks, some in the background."""
