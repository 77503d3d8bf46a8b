"""Programs bound to sizes: tables, constants, results, recordings, measured walls."""
