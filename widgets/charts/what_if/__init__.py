"""Charts of what other hardware would do."""
