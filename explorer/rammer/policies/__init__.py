"""The ways to lay rTasks on units and time."""
