"""The pictures of memory: the plan and its policies."""
