"""Grinder's pictures: control flow as uTasks."""
