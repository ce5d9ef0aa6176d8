"""SQL over topics: DuckDB queries Arrow batches that are read through the Kafka protocol.

``query.py`` is a query: it parses, reads and evaluates. ``worker.py`` is the process with DuckDB.
``statement.py`` finds what a query refers to, ``pushdown.py`` which offsets its filters need,
``fields.py`` the columns of JSON values; ``avro.py`` converts Avro to JSON. ``snapshot.py`` names
what a query read; ``changes.py`` evaluates a query again when events arrive. ``answer.py`` is a
process that answers one query of a server.
"""
