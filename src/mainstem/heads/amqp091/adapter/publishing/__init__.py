"""Publishing: from a received message to its confirm."""
