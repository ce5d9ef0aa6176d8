"""mainstem bench: it measures, prints what it measured, and leaves nothing behind."""

import json
from pathlib import Path

import pytest

from mainstem.cli.benchmarks.log import Turn, cases, summary
from mainstem.cli.benchmarks.report import report, write_section
from mainstem.cli.commands.bench import bench
from mainstem.cli.exit_codes import Refused

MEMORY_ONLY = ["log", "--seconds", "0.1", "--quick", "--durability", "memory"]


def run(*arguments: str) -> None:
    bench.main(list(arguments), prog_name="mainstem bench", standalone_mode=False)


def test_the_cases_are_every_size_batch_durability_and_number_of_partitions() -> None:
    assert len(set(cases())) == 2 * 3 * 3 * 2


def test_a_ratio_is_the_median_over_rounds_each_against_its_neighbour() -> None:
    case = cases()[0]
    slow_machine = Turn(events=10, size=1000, seconds=4.0, raw_seconds=2.0)
    quick_machine = Turn(events=10, size=1000, seconds=1.0, raw_seconds=0.5)
    disturbed = Turn(events=10, size=1000, seconds=100.0, raw_seconds=1.0)

    measured = summary("append", case, [slow_machine, quick_machine, disturbed])

    assert measured.ratio == 0.5


def test_it_prints_every_figure_as_json_and_leaves_nothing_behind_but_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "log.md"

    run(*MEMORY_ONLY, "--dir", str(tmp_path), "--format", "json", "--write", str(page))

    figures = json.loads(capsys.readouterr().out)
    assert {each["what"] for each in figures} == {"append", "read", "publish", "publish_many"}
    assert {each["partitions"] for each in figures if each["what"] == "read"} == {1, 100}
    assert all(each["events_s"] > 0 and each["ratio"] > 0 for each in figures)
    assert "10,000  memory" in page.read_text()
    assert list(tmp_path.iterdir()) == [page]


def test_a_table_has_append_and_read_of_a_case_in_one_line() -> None:
    case = cases()[0]
    turn = Turn(events=10, size=1_000_000, seconds=2.0, raw_seconds=1.0)

    shown = report([summary("append", case, [turn]), summary("read", case, [turn])])

    (line,) = [each for each in shown.splitlines() if "memory" in each]
    assert " ".join(line.split()) == "100 B 1 memory 1 5 0.5 1.0 0.50 5 0.5 1.0 0.50"


def test_too_little_space_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mainstem.cli.commands.bench.NEEDED_BYTES", 1 << 62)

    with pytest.raises(Refused, match="choose another place with --dir"):
        run(*MEMORY_ONLY, "--dir", str(tmp_path))

    assert list(tmp_path.iterdir()) == []


def test_a_section_of_a_page_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    page = tmp_path / "log.md"
    write_section(page, "log", "old figures")
    write_section(page, "growth", "a chart")

    write_section(page, "log", "new figures")

    text = page.read_text()
    assert "old figures" not in text
    assert text.index("new figures") < text.index("a chart")
    assert text.count("<!-- log: begin -->") == 1
