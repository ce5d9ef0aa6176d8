"""The examples of the README run as they are written."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

FOLDERS = (
    "core|auth|log|broker|remote|kafka_protocol|heads|connectors|pipelines|sql|client|node|cli"
)


def test_the_lines_of_python_in_the_readme_work(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

    runs = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for _ in range(2)
    ]

    assert [run.returncode for run in runs] == [0, 0], runs
    assert [len(run.stdout.splitlines()) for run in runs] == [1, 1], "only what is new is read"
    assert "{'id': 1}" in runs[0].stdout


def test_the_files_that_the_documents_name_exist() -> None:
    named: list[Path] = []
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/reading.md"):
        document = ROOT / name
        text = document.read_text()
        named += (document.parent / link for link in re.findall(r"\]\((?!http)([^)#]+)\)", text))
        modules = re.findall(rf"`((?:{FOLDERS})/[\w/]+\.py)`", text)
        named += (ROOT / "src" / "mainstem" / module for module in modules)

    assert len(named) > 20
    assert [path for path in named if not path.exists()] == []
