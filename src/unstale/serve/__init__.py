"""A small local page: what the model found before training, and what it finds now."""
