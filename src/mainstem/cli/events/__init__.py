"""Input and output of ``mainstem pub`` and ``mainstem sub``: formats, lines, programs."""
