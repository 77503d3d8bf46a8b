"""Memory layout: the order in which the dims of values lie in memory."""
