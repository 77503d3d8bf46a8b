"""Convolutions, pools, and other operators that read windows of images or between elements."""
