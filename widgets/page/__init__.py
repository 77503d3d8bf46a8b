"""The explorer as a page: in Jupyter, as one file, from the shell."""
