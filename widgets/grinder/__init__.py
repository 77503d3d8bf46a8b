"""Pictures of Grinder: control flow as uTasks."""
