"""HTTP is served by one set of libraries: Starlette and uvicorn."""

import re
from pathlib import Path

import mainstem

OTHER = re.compile(r"\bhttp\.server\b|\bwsgiref\b|\bsocketserver\b|\baiohttp\.web\b|\bimport h11\b")


def test_no_module_serves_http_by_other_libraries() -> None:
    files = list(Path(mainstem.__file__).parent.rglob("*.py"))

    found = [each for each in files if OTHER.search(each.read_text())]

    assert len(files) > 500
    assert found == []
