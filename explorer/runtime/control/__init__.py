"""Selection of control-flow schedules by their predicted times."""
