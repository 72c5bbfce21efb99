"""A short trial on someone's data: what drifts, what correcting mends, and advice."""
