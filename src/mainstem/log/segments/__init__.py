"""Segments: files of record batches, with their indexes."""
