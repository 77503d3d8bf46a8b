"""The models whose training steps are raced: ours in `recipes`, and each peer's in its own words."""
