"""Straight runs as Rammer is told of them: what each operator waits for, its tasks, their times."""
