"""Online softmax: softmax in one pass over its row, and its cost."""
