"""Configs of topics, groups and brokers: requests that describe and change them."""
