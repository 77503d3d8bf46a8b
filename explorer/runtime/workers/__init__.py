"""Worker threads, the memory that they share, and launches on them."""
