"""Values that the examples of several heads draw."""

from hypothesis import strategies as st

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
WORD = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)
HOUR_MS = 3_600_000
