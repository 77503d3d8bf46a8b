"""Cost models: bytes held, bytes moved and time of a choice, as sums of named terms."""
