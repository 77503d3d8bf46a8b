"""Where models come from: every frontend gives a `Model` whose program is at stage IMPORTED."""
