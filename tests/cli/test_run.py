"""``./run``: what it starts, with programs that only say how they were called in their places."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    shutil.copy(ROOT / "run", tmp_path)
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "venv.sh").write_text("make_venv() { :; }\n")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("mainstem", "python"):
        (programs / name).write_text('#!/bin/sh\necho "$(basename "$0") $* in $PWD"\n')
        (programs / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "started"),
    [
        ([], "python -m mainstem.cli.demo.live"),
        (["--for", "60"], "python -m mainstem.cli.demo.live --for 60"),
        (["--serve", "--kafka", ":0"], "mainstem serve --kafka :0"),
        (["--feed", "--for", "60"], "python -m mainstem.cli.demo.feed --for 60"),
        (["--tour"], "python -m mainstem.cli.demo.tour"),
    ],
)
def test_run_starts_the_sample_and_on_demand_the_server_or_the_tour(
    place: Path, arguments: list[str], started: str
) -> None:
    ran = subprocess.run(
        [place / "run", *arguments], cwd="/", capture_output=True, text=True, check=True
    )

    assert ran.stdout == f"{started} in {place}\n"
