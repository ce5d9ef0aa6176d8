"""Every message as a class; one module per group of APIs."""
