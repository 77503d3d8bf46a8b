"""Code for other targets, run where it can be."""
