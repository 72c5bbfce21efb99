"""Algorithm 1 as a sentence-transformers loss and trainer."""
