"""The pictures of a program and of the code that comes of it."""
