"""Repeated layers of a graph, and the node positions of every step."""
