"""Sinks of tables; each commits a mark (pipeline, table and batch number) with the rows."""
