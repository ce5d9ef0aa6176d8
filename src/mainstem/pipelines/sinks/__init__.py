"""Sinks of tables; each commits the pipeline's name and batch number together with the rows."""
