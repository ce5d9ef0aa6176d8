"""Receivers of live feeds: request lost events from the server; return each once, in order."""
