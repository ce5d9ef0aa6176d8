"""Transactions: producer epochs, markers, read_committed."""
