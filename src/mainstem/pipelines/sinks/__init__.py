"""Sinks of tables; each commits pipeline and batch number together with the rows."""
