"""The device program: its instructions, and their interpreter as machine code."""
