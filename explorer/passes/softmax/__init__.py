"""Softmax in one pass over its row (online softmax), and what that costs."""
