"""Grouping policies: the paper's two steps, and that of its artifact."""
