"""Shared by the APIs of groups: types, committed offsets, the format of subscriptions."""
