"""A kernel's output cut into tasks or blocks, and these into register tiles or threads."""
