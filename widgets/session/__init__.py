"""Interactive state of one compilation: knobs, moves, timings, answers. No Jupyter here."""
