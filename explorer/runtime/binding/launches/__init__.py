"""Launches of rows for units, from scheduled uTasks, and the steps of Python between them."""
