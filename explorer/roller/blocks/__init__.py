"""Thread blocks of a kernel on a GPU: construction, cost, and the choice for the wall."""
