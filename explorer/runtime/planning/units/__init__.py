"""Which units do what: all together in step, one alone, or units apart."""
