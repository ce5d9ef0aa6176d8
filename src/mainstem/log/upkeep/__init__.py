"""Background work: retention, compaction, and the schedule of both."""
