"""The models whose training steps are raced: ours, and each peer's in its own words."""
