"""Core values and rules: events, record batches, settings, names, errors. No I/O, no clock."""
