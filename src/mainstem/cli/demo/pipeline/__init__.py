"""Sample pipeline files; in a separate directory, because Spark's workers add it to their path."""
