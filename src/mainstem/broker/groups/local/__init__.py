"""Groups of consumers in this process."""
