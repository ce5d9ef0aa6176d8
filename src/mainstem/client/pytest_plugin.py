"""The former module of the pytest plugin, kept for environments installed before it was moved."""

pytest_plugins = ["mainstem.client.testing.pytest_plugin"]
