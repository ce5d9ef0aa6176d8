"""Reading: the events of a partition from an offset on."""
