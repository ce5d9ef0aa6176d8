"""Topics: created, altered, deleted, and matched by regular expressions."""
