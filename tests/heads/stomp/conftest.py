"""A STOMP head on a broker in memory."""

import pytest
from tests.heads.stomp.stomp_client import World


@pytest.fixture
async def world() -> World:
    return World()
