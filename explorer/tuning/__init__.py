"""Choosing and comparing: what would happen, what happened instead, and how others do."""
