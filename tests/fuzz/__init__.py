"""A net of random tries: graphs, files, states and crashes, each a pure function of a seed."""
