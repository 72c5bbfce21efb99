"""Bring existing vectors up to date with a new encoder by embedding only a sample."""
