"""From the Python of a kernel to machine code in memory: translated, compiled, linked, kept."""
