"""What the APIs of groups share: group types, committed offsets, the format of subscriptions."""
