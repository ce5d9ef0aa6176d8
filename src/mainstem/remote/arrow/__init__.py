"""Offset ranges of a topic as Arrow record batches; needs pyarrow and numpy.

``ranges.py`` reads a range; ``decoding.py`` decodes stored record batches into Arrow arrays.
"""
