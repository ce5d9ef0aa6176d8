"""Every operation of the HTTP head, with what its OpenAPI document says of it."""
