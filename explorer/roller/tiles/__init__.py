"""The tiles that there are for a kernel, what the model says of each, and which comes first."""
