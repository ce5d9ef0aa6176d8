"""What the system is about: events, record batches, policies, names, errors. No I/O, no clock."""
