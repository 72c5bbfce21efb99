"""Vector to cached vector: the buffer B of stale target embeddings."""
