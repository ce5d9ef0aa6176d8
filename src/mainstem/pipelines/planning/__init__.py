"""From a table's definition to the DataFrame that Spark runs: schemas, decoding, sources."""
