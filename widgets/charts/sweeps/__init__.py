"""A sweep: all of its points, two of its axes, and while it goes on."""
