"""Builds the DataFrame that Spark runs from a table's definition: schemas, decoding, sources."""
