"""Controls of options and hardware that have no knob in the row."""
