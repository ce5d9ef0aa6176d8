"""Builds a log and a broker from one configuration; runs a server on them, and closes them."""
