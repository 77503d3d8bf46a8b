"""Pictures of memory: the plan and its policies."""
