"""Configs of topics, groups and brokers, as requests describe and change them."""
