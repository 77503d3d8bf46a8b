"""Search over tilings, as Roller's rival, and how well the model predicts what it finds."""
