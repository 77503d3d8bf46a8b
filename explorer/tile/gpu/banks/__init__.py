"""Banks of shared memory: what lanes ask of them at once, rows and lanes that do not collide."""
