"""What the APIs of groups share: types, committed offsets, the format of subscriptions."""
