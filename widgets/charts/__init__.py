"""Charts of rooms as plotly figures, from the same rows as their drawings."""
