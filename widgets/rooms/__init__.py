"""The rooms of the house: the list of pictures, and their content."""
