"""What will a run cost? Memory, operations and time, before it is started."""
