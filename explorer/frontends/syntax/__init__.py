"""Python's own `if`, `while` and `for` on traced values: a function's text, rewritten."""
