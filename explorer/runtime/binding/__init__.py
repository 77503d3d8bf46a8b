"""Programs bound to sizes: tables, launches, recordings, outputs, measured walls."""
