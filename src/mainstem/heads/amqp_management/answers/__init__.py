"""The functions that answer requests, one module per kind of resource, with a table ``ROUTES``."""
