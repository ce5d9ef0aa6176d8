"""The settings of a node that apply to all its connectors."""

from typing import Annotated

import msgspec


class ConnectorLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that all connectors of a node have in common."""

    secrets_dir: Annotated[
        str, "Directory of the files that connectors may read passwords from."
    ] = "/run/secrets"
