"""What a choice costs, as a sum of named terms: bytes held, bytes moved, time."""
