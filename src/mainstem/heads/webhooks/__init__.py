"""Webhooks: events delivered to URLs, and received at URLs, by HTTP POST."""
