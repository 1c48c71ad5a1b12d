"""Every API of the protocol: its key, name, versions, and which headers its requests and responses have.

The table is that of Kafka 4.4. Keys 4 to 7 (removed with ZooKeeper) have a name and no versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from kafka_sidecar.codec.errors import UnsupportedVersionError
from kafka_sidecar.codec.schema.fields import parse_versions


class ErrorCode(IntEnum):
    """The error codes that the proxy and its commands read or write. Others are plain numbers."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    INCONSISTENT_GROUP_PROTOCOL = 23
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    FETCH_SESSION_ID_NOT_FOUND = 70
    FENCED_LEADER_EPOCH = 74
    UNSUPPORTED_COMPRESSION_TYPE = 76
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100
    TRANSACTION_ABORTABLE = 120
    SHARE_SESSION_NOT_FOUND = 122


def error_name(code: int) -> str:
    """Kafka's name of an error.

    >>> error_name(87), error_name(9999)
    ('INVALID_RECORD', 'error 9999')
    """
    return ErrorCode(code).name if code in _CODES else f"error {code}"


_CODES = frozenset(ErrorCode)


class ApiKey(IntEnum):
    """The API of a request."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94


@dataclass(frozen=True, slots=True)
class Api:
    """One API, with the versions in Kafka's definitions, both inclusive."""

    key: ApiKey
    name: str  # as in Kafka's documentation: "ListOffsets"
    min_version: int
    max_version: int  # below min_version: removed from the protocol
    flexible_from: int | None  # the first version with compact types and tagged fields (KIP-482)


# key -> (versions, flexible versions), in Kafka's notation
_VERSIONS = {
    ApiKey.PRODUCE: ("3-13", "9+"),
    ApiKey.FETCH: ("4-18", "12+"),
    ApiKey.LIST_OFFSETS: ("1-11", "6+"),
    ApiKey.METADATA: ("0-13", "9+"),
    ApiKey.LEADER_AND_ISR: ("none", "none"),
    ApiKey.STOP_REPLICA: ("none", "none"),
    ApiKey.UPDATE_METADATA: ("none", "none"),
    ApiKey.CONTROLLED_SHUTDOWN: ("none", "none"),
    ApiKey.OFFSET_COMMIT: ("2-10", "8+"),
    ApiKey.OFFSET_FETCH: ("1-10", "6+"),
    ApiKey.FIND_COORDINATOR: ("0-6", "3+"),
    ApiKey.JOIN_GROUP: ("0-9", "6+"),
    ApiKey.HEARTBEAT: ("0-4", "4+"),
    ApiKey.LEAVE_GROUP: ("0-5", "4+"),
    ApiKey.SYNC_GROUP: ("0-5", "4+"),
    ApiKey.DESCRIBE_GROUPS: ("0-6", "5+"),
    ApiKey.LIST_GROUPS: ("0-5", "3+"),
    ApiKey.SASL_HANDSHAKE: ("0-1", "none"),
    ApiKey.API_VERSIONS: ("0-5", "3+"),
    ApiKey.CREATE_TOPICS: ("2-7", "5+"),
    ApiKey.DELETE_TOPICS: ("1-6", "4+"),
    ApiKey.DELETE_RECORDS: ("0-2", "2+"),
    ApiKey.INIT_PRODUCER_ID: ("0-6", "2+"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ("2-4", "4+"),
    ApiKey.ADD_PARTITIONS_TO_TXN: ("0-5", "3+"),
    ApiKey.ADD_OFFSETS_TO_TXN: ("0-4", "3+"),
    ApiKey.END_TXN: ("0-5", "3+"),
    ApiKey.WRITE_TXN_MARKERS: ("1-2", "1+"),
    ApiKey.TXN_OFFSET_COMMIT: ("0-6", "3+"),
    ApiKey.DESCRIBE_ACLS: ("1-3", "2+"),
    ApiKey.CREATE_ACLS: ("1-3", "2+"),
    ApiKey.DELETE_ACLS: ("1-3", "2+"),
    ApiKey.DESCRIBE_CONFIGS: ("1-4", "4+"),
    ApiKey.ALTER_CONFIGS: ("0-2", "2+"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: ("1-2", "2+"),
    ApiKey.DESCRIBE_LOG_DIRS: ("1-5", "2+"),
    ApiKey.SASL_AUTHENTICATE: ("0-2", "2+"),
    ApiKey.CREATE_PARTITIONS: ("0-3", "2+"),
    ApiKey.CREATE_DELEGATION_TOKEN: ("1-3", "2+"),
    ApiKey.RENEW_DELEGATION_TOKEN: ("1-2", "2+"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: ("1-2", "2+"),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: ("1-3", "2+"),
    ApiKey.DELETE_GROUPS: ("0-3", "2+"),
    ApiKey.ELECT_LEADERS: ("0-2", "2+"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("0-1", "1+"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ("0-1", "0+"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ("0", "0+"),
    ApiKey.OFFSET_DELETE: ("0", "none"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: ("0-1", "1+"),
    ApiKey.ALTER_CLIENT_QUOTAS: ("0-1", "1+"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: ("0", "0+"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ("0", "0+"),
    ApiKey.VOTE: ("0-2", "0+"),
    ApiKey.BEGIN_QUORUM_EPOCH: ("0-1", "1+"),
    ApiKey.END_QUORUM_EPOCH: ("0-1", "1+"),
    ApiKey.DESCRIBE_QUORUM: ("0-2", "0+"),
    ApiKey.ALTER_PARTITION: ("2-3", "0+"),
    ApiKey.UPDATE_FEATURES: ("0-2", "0+"),
    ApiKey.ENVELOPE: ("0", "0+"),
    ApiKey.FETCH_SNAPSHOT: ("0-1", "0+"),
    ApiKey.DESCRIBE_CLUSTER: ("0-2", "0+"),
    ApiKey.DESCRIBE_PRODUCERS: ("0", "0+"),
    ApiKey.BROKER_REGISTRATION: ("0-4", "0+"),
    ApiKey.BROKER_HEARTBEAT: ("0-2", "0+"),
    ApiKey.UNREGISTER_BROKER: ("0", "0+"),
    ApiKey.DESCRIBE_TRANSACTIONS: ("0", "0+"),
    ApiKey.LIST_TRANSACTIONS: ("0-2", "0+"),
    ApiKey.ALLOCATE_PRODUCER_IDS: ("0", "0+"),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: ("0-1", "0+"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("0-1", "0+"),
    ApiKey.CONTROLLER_REGISTRATION: ("0", "0+"),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: ("0", "0+"),
    ApiKey.PUSH_TELEMETRY: ("0", "0+"),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: ("0", "0+"),
    ApiKey.LIST_CONFIG_RESOURCES: ("0-1", "0+"),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: ("0", "0+"),
    ApiKey.SHARE_GROUP_HEARTBEAT: ("1", "0+"),
    ApiKey.SHARE_GROUP_DESCRIBE: ("1", "0+"),
    ApiKey.SHARE_FETCH: ("1-2", "0+"),
    ApiKey.SHARE_ACKNOWLEDGE: ("1-2", "0+"),
    ApiKey.ADD_RAFT_VOTER: ("0-1", "0+"),
    ApiKey.REMOVE_RAFT_VOTER: ("0", "0+"),
    ApiKey.UPDATE_RAFT_VOTER: ("0", "0+"),
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: ("0", "0+"),
    ApiKey.READ_SHARE_GROUP_STATE: ("0", "0+"),
    ApiKey.WRITE_SHARE_GROUP_STATE: ("0-1", "0+"),
    ApiKey.DELETE_SHARE_GROUP_STATE: ("0", "0+"),
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: ("0-1", "0+"),
    ApiKey.STREAMS_GROUP_HEARTBEAT: ("0-1", "0+"),
    ApiKey.STREAMS_GROUP_DESCRIBE: ("0-1", "0+"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ("0-1", "0+"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: ("0", "0+"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: ("0", "0+"),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: ("0", "0+"),
    ApiKey.UNREGISTER_CONTROLLER: ("0", "0+"),
}


def _api(key: ApiKey) -> Api:
    versions, flexible = (parse_versions(text) for text in _VERSIONS[key])
    return Api(
        key=key,
        name=key.name.title().replace("_", ""),
        min_version=versions.low,
        max_version=versions.high,
        flexible_from=flexible.low if flexible.low <= flexible.high else None,
    )


APIS: dict[int, Api] = {key: _api(key) for key in ApiKey}


def is_removed(key: int, version: int) -> bool:
    """Whether brokers of Kafka 4 no longer take this version (KIP-896).

    >>> is_removed(ApiKey.PRODUCE, 2), is_removed(ApiKey.PRODUCE, 3)
    (True, False)
    """
    api = APIS.get(key)
    return api is not None and version < api.min_version


def request_header_version(key: int, version: int) -> int:
    """The version of a request's `RequestHeader`: 1, or 2 from the first flexible version on.

    Also for versions that Kafka has removed or not released yet.

    >>> request_header_version(ApiKey.PRODUCE, 2), request_header_version(ApiKey.PRODUCE, 9)
    (1, 2)

    Raises:
        UnsupportedVersionError: the API is unknown, or the version negative.
    """
    return 2 if _is_flexible(key, version) else 1


def response_header_version(key: int, version: int) -> int:
    """The version of a response's `ResponseHeader`: 0, or 1 from the first flexible version on.

    ApiVersions always has 0: a client must be able to read it before it knows the broker's versions.

    Raises:
        UnsupportedVersionError: the API is unknown, or the version negative.
    """
    return 1 if _is_flexible(key, version) and key != ApiKey.API_VERSIONS else 0


def _is_flexible(key: int, version: int) -> bool:
    api = APIS.get(key)
    if api is None:
        raise UnsupportedVersionError(f"unknown API key {key}")
    if version < 0:
        raise UnsupportedVersionError(f"invalid version {version} of {api.name}")
    return api.flexible_from is not None and version >= api.flexible_from
