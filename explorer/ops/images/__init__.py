"""Convolutions, pools, and what else reads windows of images or between their elements."""
