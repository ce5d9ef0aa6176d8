"""Clients written for Node: programs that use a package which .ci/run brings, run to their end."""

import os
import shutil
from pathlib import Path

import pytest
from tests.processes import output_of

CACHE = Path(__file__).parents[2] / ".cache"


def needed(package: str, name: str) -> list[pytest.MarkDecorator]:
    """Return the marks of tests that need a package; ``name``: what people call it."""
    return [
        pytest.mark.peers,
        pytest.mark.skipif(
            not _modules(package).is_dir(), reason=f"{name} is not in .cache/{package}: run .ci/run"
        ),
        pytest.mark.skipif(
            shutil.which("node") is None, reason="node is missing: apt-get install nodejs"
        ),
    ]


def node(package: str, program: Path, *arguments: str, **environment: str) -> list[str]:
    """Run a program to its end, and return the lines it printed."""
    env = {**os.environ, "NODE_PATH": str(_modules(package).parent), **environment}
    return output_of(["node", str(program), *arguments], env=env).splitlines()


def _modules(package: str) -> Path:
    return CACHE / package / "node_modules" / package
