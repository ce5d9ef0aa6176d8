"""State that a run keeps between restarts, in the state directory."""
