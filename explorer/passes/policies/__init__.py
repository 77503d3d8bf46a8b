"""Policies of one's own under a name: which function a name stands for, by system."""
