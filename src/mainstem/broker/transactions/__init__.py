"""Transactions: producer epochs, markers, and what readers of committed events see."""
