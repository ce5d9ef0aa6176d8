"""The admin head: health and metrics over HTTP, for whoever looks after the server."""
