"""Function calls: recursion and inlining."""
