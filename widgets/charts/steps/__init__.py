"""Charts of the effect of steps."""
