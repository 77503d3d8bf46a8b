"""In which order the dims of values lie in memory."""
