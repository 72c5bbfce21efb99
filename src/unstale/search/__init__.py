"""Top-k over the buffer, seen through a corrector."""
