"""The Python API: ``Stem``, the interface to a log, which is in this process or on a server."""
