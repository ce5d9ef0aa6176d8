"""Spark finds packages of this kind of name by itself and registers their ``DefaultSource``."""

from mainstem.pipelines.format.source import MainstemSource as DefaultSource

__all__ = ["DefaultSource"]
