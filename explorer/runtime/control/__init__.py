"""Which way each loop and branch runs: predicted times of the ways, and the choice."""
