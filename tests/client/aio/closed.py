"""What every async stem does after it was closed."""

import pytest

from mainstem.aio import AsyncStem
from mainstem.core.errors import Closed


async def check_it_stays_closed(stem: AsyncStem, topic: str) -> None:
    """Publish and close, after which nothing can be published."""
    await stem.publish(topic, "x")
    await stem.close()

    with pytest.raises(Closed):
        await stem.publish(topic, "x")
