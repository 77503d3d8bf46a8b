"""A program bound to sizes: tables, constants, results, recordings, the measured wall."""
