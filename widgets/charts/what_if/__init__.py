"""Charts of the effect of other hardware."""
