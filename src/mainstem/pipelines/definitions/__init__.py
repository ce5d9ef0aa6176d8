"""What a pipeline file says: its tables, their sources, and the checks that need no Spark."""
