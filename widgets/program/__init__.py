"""Pictures of a program and of its generated code."""
