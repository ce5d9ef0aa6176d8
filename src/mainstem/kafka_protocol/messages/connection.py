"""The first requests of a connection: versions and authentication."""

from typing import Annotated

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, Since, Tag, Wire
from mainstem.kafka_protocol.wire import Array, Bool, Bytes, Int16, Int32, Int64, String


class ApiVersionsRequest(Wire, frozen=True):
    """Ask for the supported APIs and versions."""

    client_software_name: Annotated[String, Since(3), IGNORABLE] = ""
    client_software_version: Annotated[String, Since(3), IGNORABLE] = ""


class ServedApi(Wire, frozen=True):
    """A supported API, with its first and last supported version."""

    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeature(Wire, frozen=True):
    """A feature that the broker supports, with its range of levels."""

    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeature(Wire, frozen=True):
    """A feature that is finalized in the cluster, with its range of levels."""

    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(Wire, frozen=True):
    """The supported APIs, and the supported and finalized features."""

    error_code: Int16 = 0
    api_keys: Array[ServedApi] = ()
    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0
    supported_features: Annotated[Array[SupportedFeature], Since(3), Tag(0), IGNORABLE] = ()
    finalized_features_epoch: Annotated[Int64, Since(3), Tag(1), IGNORABLE] = -1
    finalized_features: Annotated[Array[FinalizedFeature], Since(3), Tag(2), IGNORABLE] = ()
    zk_migration_ready: Annotated[Bool, Since(3), Tag(3), IGNORABLE] = False


API_VERSIONS = api(18, ApiVersionsRequest, ApiVersionsResponse, "0-4", "3+")


class SaslHandshakeRequest(Wire, frozen=True):
    """Choose a SASL mechanism."""

    mechanism: String = ""


class SaslHandshakeResponse(Wire, frozen=True):
    """The supported SASL mechanisms."""

    error_code: Int16 = 0
    mechanisms: Array[String] = ()


SASL_HANDSHAKE = api(17, SaslHandshakeRequest, SaslHandshakeResponse, "0-1")


class SaslAuthenticateRequest(Wire, frozen=True):
    """One step of the chosen SASL mechanism."""

    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(Wire, frozen=True):
    """The broker's answer to one step of the SASL mechanism."""

    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Annotated[Int64, Since(1), IGNORABLE] = 0


SASL_AUTHENTICATE = api(36, SaslAuthenticateRequest, SaslAuthenticateResponse, "0-2", "2+")
