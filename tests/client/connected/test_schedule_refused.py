"""``schedule`` is refused over the network, and the error says what to use instead."""

import pytest

import mainstem
from mainstem import aio
from mainstem.core.errors import Unsupported


async def test_scheduling_is_refused_over_the_network(kafka: str) -> None:
    with mainstem.connect(kafka) as stem, pytest.raises(Unsupported, match=r"mainstem\.open"):
        stem.schedule("orders", "x", delay_s=1)
    async with aio.connect(kafka) as over_loop:
        with pytest.raises(Unsupported, match="x-delayed-message"):
            await over_loop.schedule("orders", "x", delay_s=1)
