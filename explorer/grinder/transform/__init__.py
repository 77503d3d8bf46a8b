"""From functions to uTasks: calls are inlined, bodies get values, views find their bytes."""
