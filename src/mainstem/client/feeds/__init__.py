"""Receivers of feeds: they get what was lost from the log, and deliver in order, once."""
