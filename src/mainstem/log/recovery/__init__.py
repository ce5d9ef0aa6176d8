"""Opening a directory after a crash; verifying and repairing a damaged one."""
