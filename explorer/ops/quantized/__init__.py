"""Small integers and floats with scales, and their products."""
