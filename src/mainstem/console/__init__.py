"""Web pages that show the log, the cursors and the redeliveries."""
