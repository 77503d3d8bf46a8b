"""The rooms of the house: which there are, and what each shows."""
