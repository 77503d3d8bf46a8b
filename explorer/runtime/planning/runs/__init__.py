"""Straight runs as inputs of Rammer: waits of operators, tasks, and their times."""
