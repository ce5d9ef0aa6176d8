"""Partitions, durable: append, read, wait at the tail, recover, retain, compact."""
