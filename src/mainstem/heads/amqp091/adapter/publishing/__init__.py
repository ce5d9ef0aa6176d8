"""From a message that arrives to its confirm."""
