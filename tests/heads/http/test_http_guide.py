"""The curl lines of the guide work, one after the other."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest
from tests.heads.http.serving import Client, serve
from tests.heads.started import Started

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
