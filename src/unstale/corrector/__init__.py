"""Cached vector to approximately fresh vector: the network h and its losses."""
