"""A compilation under a reader's hands: knobs, moves, timings, answers. No Jupyter here."""
