"""The error that members of groups get while the server stops."""

from mainstem.core.errors import Closed

STOPPING = Closed("the server stops; ask again when it is back")
