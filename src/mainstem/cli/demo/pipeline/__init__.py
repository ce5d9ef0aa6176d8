"""Sample pipeline files, in a directory of their own because Spark's workers import from it."""
