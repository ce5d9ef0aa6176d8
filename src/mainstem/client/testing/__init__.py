"""A broker for tests: the pytest plugin, and the server process behind it."""
