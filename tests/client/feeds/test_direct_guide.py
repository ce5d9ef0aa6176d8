"""The guide's table of what is lost names a test in each row, and those tests exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guides" / "direct.md"
_TEST = re.compile(r"`(test_\w+)`")


def rows() -> list[str]:
    table = GUIDE.read_text().partition("## What is lost")[2]
    return [line for line in table.splitlines() if line.startswith("| ")][1:]


def test_each_row_of_what_is_lost_names_tests_that_exist() -> None:
    folders = ("tests/client/feeds", "tests/heads/zmq", "tests/heads/nng")
    written = "\n".join(
        file.read_text() for folder in folders for file in (ROOT / folder).glob("test_*.py")
    )

    assert len(rows()) >= 8
    for row in rows():
        named = _TEST.findall(row)
        assert named, row
        for each in named:
            assert f"def {each}(" in written, each
