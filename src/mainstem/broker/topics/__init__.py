"""Topics: create, alter, delete, and match by regular expressions."""
