"""All operations of the HTTP head, and their descriptions in its OpenAPI document."""
