"""Direct messaging beside the bare libraries: ``python -m bench.direct``."""
