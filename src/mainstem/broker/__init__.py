"""What can be done with topics: publish, read, cursors, groups, overload."""
