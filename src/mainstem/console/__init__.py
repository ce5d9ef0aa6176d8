"""Empty so far; will have web pages for the log, cursors and redeliveries."""
