"""Device programs: instruction set, and interpreter as machine code."""
