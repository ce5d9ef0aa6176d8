"""Groups: consumers that own partitions, their cursors, lag and configs."""
