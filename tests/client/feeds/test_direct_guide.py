"""The guides' tables of what is lost name a test in each row, and those tests exist."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HEADING = "## What is lost"
GUIDES = sorted(
    guide.name for guide in (ROOT / "docs" / "guides").glob("*.md") if HEADING in guide.read_text()
)
_TEST = re.compile(r"`(test_\w+)`")
_DEFINED = re.compile(r"^(?:async )?def (test_\w+)\(", re.MULTILINE)


@cache
def defined() -> set[str]:
    files = (ROOT / "tests").rglob("test_*.py")
    return {name for file in files for name in _DEFINED.findall(file.read_text())}


def rows(guide: str) -> list[str]:
    """Return the table's rows without its heading."""
    section = (ROOT / "docs" / "guides" / guide).read_text().partition(HEADING)[2]
    table = section.partition("\n## ")[0]
    return [line for line in table.splitlines() if line.startswith("| ")][1:]


def test_the_guides_of_direct_messaging_say_what_is_lost() -> None:
    assert {"direct.md", "multicast.md"} <= set(GUIDES)


@pytest.mark.parametrize("guide", GUIDES)
def test_each_row_of_what_is_lost_names_tests_that_exist(guide: str) -> None:
    assert len(rows(guide)) >= 4
    for row in rows(guide):
        named = _TEST.findall(row.split("|")[-2])
        assert named, row
        for each in named:
            assert each in defined(), each
