"""Bug reports: the last fault, stored when it happened, without private details."""
