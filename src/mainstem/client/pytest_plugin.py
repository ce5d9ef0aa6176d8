"""The former module of the pytest plugin, for environments that were installed before it moved."""

pytest_plugins = ["mainstem.client.testing.pytest_plugin"]
