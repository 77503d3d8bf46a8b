"""Functions to uTasks: calls are inlined, bodies get values, views become offsets."""
