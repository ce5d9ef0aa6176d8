"""The Python API: ``Stem``, the interface to a log in this process or on a server."""
