"""The pass pipeline: registry, memoized steps, fingerprints, validation, user-defined passes."""
