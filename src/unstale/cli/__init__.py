"""The command line: the only place where flags become objects."""
