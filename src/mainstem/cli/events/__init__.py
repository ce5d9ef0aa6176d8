"""What ``mainstem pub`` and ``mainstem sub`` read and print: formats, lines, programs."""
