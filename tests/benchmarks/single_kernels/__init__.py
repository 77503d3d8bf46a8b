"""One operator alone: its values, its runs in each runtime, and the roofs of this machine."""
