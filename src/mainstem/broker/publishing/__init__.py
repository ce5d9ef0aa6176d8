"""Publishing: from events and record batches to appends, and what happens on overload."""
