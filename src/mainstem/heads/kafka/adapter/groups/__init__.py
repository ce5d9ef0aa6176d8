"""What the APIs of groups share: group states, committed offsets, the format of subscriptions."""
