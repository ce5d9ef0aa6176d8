"""The async API: logs and servers (``AsyncStem``) for programs with an event loop."""
