"""Fetch sessions and leader epochs, for Fetch, ListOffsets and OffsetForLeaderEpoch."""
