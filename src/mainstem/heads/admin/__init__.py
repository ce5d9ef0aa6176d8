"""The admin head: /livez, /readyz, /metrics, the admin API, and the contents of queues."""

from mainstem.heads.admin.settings import AdminSettings
from mainstem.heads.head import Head

HEAD = Head(
    "admin",
    "admin",
    AdminSettings(),
    serves="Address of /livez, /readyz and /metrics.",
    connect="http://{at}   /livez /readyz /metrics",
    starts_first=True,
    auto_port=9644,
)
