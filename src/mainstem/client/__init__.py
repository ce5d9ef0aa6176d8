"""The Python API: one ``Stem`` interface, in process or over the network."""
