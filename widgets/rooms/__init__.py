"""The rooms of the explorer: the list of pictures, and their content."""
