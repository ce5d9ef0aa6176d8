"""Sample pipeline files, in a directory of their own, as Spark's workers add it to their path."""
