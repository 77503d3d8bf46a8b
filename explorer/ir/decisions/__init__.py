"""What the systems leave behind: each decision as a value, with its losing candidates, read by
later systems and pictures.
"""
