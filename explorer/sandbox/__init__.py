"""Somebody else's code: tried in a process of its own before it runs in this one, and found by its
line where it fails.
"""
