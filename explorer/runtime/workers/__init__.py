"""Worker threads, the memory they share, and launches of programs on them."""
