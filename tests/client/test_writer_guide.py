"""The guide to writers: its example runs as it is written."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "writer.md"


def test_the_example_of_the_guide_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)

    exec(compile(example, str(GUIDE), "exec"), {})

    fenced, last = capsys.readouterr().out.splitlines()
    assert fenced.startswith("another writer 'bookkeeper' of topic 'ledger'[0] has taken over, ")
    assert last == "{'account': 8, 'amount': 20}"
