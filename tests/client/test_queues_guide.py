"""The guide to queues: its examples run as they are written."""

import re
from pathlib import Path

import pytest

import mainstem

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "queues.md"


def example(section: str, number: int = 0) -> str:
    """Return a program of a section."""
    (_, _, rest) = GUIDE.read_text().partition(f"\n## {section}\n")
    found = re.findall(r"```python\n(.*?)```", rest.partition("\n## ")[0], re.DOTALL)
    return str(found[number])


def test_the_example_of_limits_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    for _ in range(2):
        exec(compile(example("Limits of waiting events"), str(GUIDE), "exec"), {})

        assert capsys.readouterr().out.splitlines() == ["put out the fire", "tidy up"]


def test_the_example_of_acks_that_nobody_waits_for_runs(memory: mainstem.EmbeddedStem) -> None:
    memory.publish_many("orders", [{"id": 1}, {"id": 2}])
    sent: list[object] = []
    known = {"stem": memory, "send": sent.append}

    exec(compile(example("Settling a delivery", 1), str(GUIDE), "exec"), known)

    assert sent == [{"id": 1}, {"id": 2}]
    assert memory.queues.show("orders", "emails").ready == 0


def test_the_example_of_delayed_events_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    exec(compile(example("Delayed events"), str(GUIDE), "exec"), {})

    assert capsys.readouterr().out == "in a second\n"
