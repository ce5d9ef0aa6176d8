"""Will have web pages for the log, cursors and redeliveries; empty so far."""
