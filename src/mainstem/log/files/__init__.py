"""Every disk access of the log."""
