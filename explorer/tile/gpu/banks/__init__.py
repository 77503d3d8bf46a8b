"""Banks of shared memory: lanes' simultaneous requests, and layouts without conflicts."""
