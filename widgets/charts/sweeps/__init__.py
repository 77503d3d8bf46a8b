"""Charts of a sweep: all of its points, two of its axes, and a live one."""
