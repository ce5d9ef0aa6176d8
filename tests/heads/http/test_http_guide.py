"""The guide: its curl lines work, one after the other, and it lists every status."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest
from tests.heads.http.serving import Client, serve
from tests.heads.started import Started

import mainstem.heads
from mainstem.core.errors import Failure
from mainstem.heads.http.api.operations import OPERATIONS
from mainstem.heads.web.problem import STATUSES

HEADS = Path(mainstem.heads.__file__).parent
GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "http.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_lines_of_the_guide_work() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.S)
    assert blocks

    async def scenario(server: Started, _client: Client) -> None:
        # The lines of a block share a shell, as they share variables.
        for block in blocks:
            said = "set -e\n" + block.replace("localhost:8080", str(server.running.address))
            # --json came with curl 7.82.
            said = said.replace("--json ", "-H 'Content-Type: application/json' --data ")
            said = said.replace("curl ", "curl --fail-with-body -sS --max-time 60 ")
            running = await asyncio.create_subprocess_shell(
                said, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
            )
            shown, _ = await running.communicate()
            assert running.returncode == 0, f"{block}\n{shown.decode()}"

    serve(scenario)


def test_every_status_and_failure_is_in_the_guide() -> None:
    errors = GUIDE.read_text().partition("\n## Errors\n")[2].partition("\n## ")[0]
    told = set(map(int, re.findall(r"\b[2-5]\d\d\b", errors)))

    code = "".join(
        path.read_text() for folder in ("web", "http") for path in (HEADS / folder).rglob("*.py")
    )
    refused = set(map(int, re.findall(r"Refused\(\s*(\d{3})", code)))
    answered = {status for each in OPERATIONS for status in each.answers}
    assert len(refused) > 10
    # Starlette's router says 404 and 405.
    assert told == refused | answered | set(STATUSES.values()) | {404, 405}
    assert set(re.findall(r"`(\w+)`", errors)) >= set(Failure)
