"""Builds a log and a broker from one configuration, runs servers on them, and closes them."""
