"""Plans of one binding of the sizes, before memory is allocated: order, places, walls."""
