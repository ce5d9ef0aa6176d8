"""Where tables are kept; each sink commits (pipeline, batch) together with the data."""
