"""Vector databases that a migration reads from and writes to, each behind one small protocol."""
