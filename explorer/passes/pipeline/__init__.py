"""What makes passes a pipeline: names, fingerprints, what is remembered, checks, and passes of the
user's own.
"""
