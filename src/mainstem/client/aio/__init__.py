"""The async API: the same stems for an event loop."""
