"""Replicas of a model on threads, processes and machines, which sum their gradients in buckets."""
