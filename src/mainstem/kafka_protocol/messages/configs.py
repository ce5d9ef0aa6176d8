"""Configs of topics, brokers and groups."""

from typing import Annotated, Generic, TypeVar

from mainstem.kafka_protocol.api import api
from mainstem.kafka_protocol.fields import IGNORABLE, Since, Wire
from mainstem.kafka_protocol.messages.responses import Throttled, ThrottledError
from mainstem.kafka_protocol.wire import Array, Bool, Int8, Int16, String

C = TypeVar("C")
"""Type of the configs in a request: with a new value, or with an operation."""


class DescribeConfigsResource(Wire, frozen=True):
    """A resource, and the names of the configs to describe; null means all."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: Array[String] | None = ()


class DescribeConfigsRequest(Wire, frozen=True):
    """Ask for configs."""

    resources: Array[DescribeConfigsResource] = ()
    include_synonyms: Bool = False
    include_documentation: Annotated[Bool, Since(3)] = False


class ConfigSynonym(Wire, frozen=True):
    """A place where a config has a value; the first synonym in the list takes precedence."""

    name: String = ""
    value: String | None = ""
    source: Int8 = 0


class ConfigValue(Wire, frozen=True):
    """The name, value and source of a config."""

    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


class DescribedConfig(ConfigValue, frozen=True):
    """A config in a response, with its value, source and synonyms."""

    synonyms: Array[ConfigSynonym] = ()
    config_type: Annotated[Int8, Since(3), IGNORABLE] = 0
    documentation: Annotated[String | None, Since(3), IGNORABLE] = ""


class ConfigsResult(Wire, frozen=True):
    """A resource, and whether its configs could be described or changed."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class DescribedConfigs(ConfigsResult, frozen=True):
    """The configs of one resource."""

    configs: Array[DescribedConfig] = ()


class DescribeConfigsResponse(Throttled, frozen=True):
    """The requested configs."""

    results: Array[DescribedConfigs] = ()


DESCRIBE_CONFIGS = api(32, DescribeConfigsRequest, DescribeConfigsResponse, "1-4", "4+")


class AlterConfig(Wire, frozen=True):
    """A config and its new value."""

    name: String = ""
    value: String | None = ""


class ResourceConfigs(Wire, Generic[C], frozen=True):
    """A resource and the configs to set or change."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[C] = ()


AlterConfigsResource = ResourceConfigs[AlterConfig]


class AlterConfigsRequest(Wire, frozen=True):
    """Replace all configs of resources."""

    resources: Array[AlterConfigsResource] = ()
    validate_only: Bool = False


class AlteredConfigs(ConfigsResult, frozen=True):
    """For one resource, whether its configs were changed."""


class AlterConfigsResponse(Throttled, frozen=True):
    """For each resource, whether its configs were changed."""

    responses: Array[AlteredConfigs] = ()


ALTER_CONFIGS = api(33, AlterConfigsRequest, AlterConfigsResponse, "0-2", "2+")


class IncrementalAlter(Wire, frozen=True):
    """A config to set (0), delete (1), append to (2) or subtract from (3)."""

    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


IncrementalAlterResource = ResourceConfigs[IncrementalAlter]


class IncrementalAlterConfigsRequest(Wire, frozen=True):
    """Change some configs of resources."""

    resources: Array[IncrementalAlterResource] = ()
    validate_only: Bool = False


class IncrementalAlterConfigsResponse(AlterConfigsResponse, frozen=True):
    """For each resource, whether its configs were changed."""


INCREMENTAL_ALTER_CONFIGS = api(
    44, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, "0-1", "1+"
)


class ListConfigResourcesRequest(Wire, frozen=True):
    """Ask which resources have configs."""

    resource_types: Annotated[Array[Int8], Since(1)] = ()


class ConfigResource(Wire, frozen=True):
    """A resource, by type and name."""

    resource_name: String = ""
    resource_type: Annotated[Int8, Since(1), IGNORABLE] = 16


class ListConfigResourcesResponse(ThrottledError, frozen=True):
    """The resources that have configs."""

    config_resources: Array[ConfigResource] = ()


LIST_CONFIG_RESOURCES = api(
    74, ListConfigResourcesRequest, ListConfigResourcesResponse, "0-1", "0+"
)
