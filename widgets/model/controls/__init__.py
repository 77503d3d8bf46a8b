"""Controls of what has no knob in the row."""
