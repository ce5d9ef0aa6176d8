"""Configs of topics, groups and brokers in requests."""
