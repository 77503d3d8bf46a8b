"""Model files, read by position; their content is untrusted until it is checked."""
