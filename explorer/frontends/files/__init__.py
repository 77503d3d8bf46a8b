"""Model files, read by position: nothing in them is trusted before it is checked."""
