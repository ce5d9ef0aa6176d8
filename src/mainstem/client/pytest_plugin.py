"""The former place of the pytest plugin, for environments installed before it moved."""

pytest_plugins = ["mainstem.client.testing.pytest_plugin"]
