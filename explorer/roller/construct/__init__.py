"""Construction of rTiles (Roller, OSDI 2022, section 3): aligned, enlarged by level, scaled out."""
