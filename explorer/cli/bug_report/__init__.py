"""What a report of a fault says: the last fault, kept as it happened, and nothing private."""
