"""What a run keeps between restarts, in the state directory."""
