"""The APIs of the cluster as a whole, the operation that each needs on it as KafkaApis checks it, and how each answers
that it is not allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafka_sidecar.codec.apis import ApiKey
from kafka_sidecar.codec.message import Message
from kafka_sidecar.codec.messages import (
    add_raft_voter,
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    altered_client_quotas,
    create_acls,
    create_delegation_token,
    delete_acls,
    describe_acls,
    describe_client_quotas,
    describe_delegation_token,
    describe_log_dirs,
    describe_quorum,
    describe_user_scram_credentials,
    elect_leaders,
    expire_delegation_token,
    list_config_resources,
    list_partition_reassignments,
    remove_raft_voter,
    renew_delegation_token,
    unregister_broker,
    unregister_controller,
    update_features,
)
from kafka_sidecar.proxy.exchanges.messages import Rejection
from kafka_sidecar.proxy.features.authorization.acls import Operation
from kafka_sidecar.proxy.features.authorization.checked_apis import CheckedApi, on_cluster


def _refuse_creations(request: create_acls.CreateAclsRequest, why: Rejection) -> Message:
    result = create_acls.AclCreationResult(error_code=why.error_code, error_message=why.message)
    return create_acls.CreateAclsResponse(results=(result,) * len(request.creations))


def _refuse_filters(request: delete_acls.DeleteAclsRequest, why: Rejection) -> Message:
    result = delete_acls.DeleteAclsFilterResult(error_code=why.error_code, error_message=why.message)
    return delete_acls.DeleteAclsResponse(filter_results=(result,) * len(request.filters))


def _refuse_moves(request: alter_replica_log_dirs.AlterReplicaLogDirsRequest, why: Rejection) -> Message:
    results = (
        alter_replica_log_dirs.AlterReplicaLogDirTopicResult(
            topic_name=topic.name,
            partitions=tuple(
                alter_replica_log_dirs.AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=why.error_code
                )
                for index in topic.partitions
            ),
        )
        for folder in request.dirs
        for topic in folder.topics
    )
    return alter_replica_log_dirs.AlterReplicaLogDirsResponse(results=tuple(results))


def _refuse_elections(request: elect_leaders.ElectLeadersRequest, why: Rejection) -> Message:
    results = (
        elect_leaders.ReplicaElectionResult(
            topic=topic.topic,
            partition_result=tuple(
                elect_leaders.PartitionResult(partition_id=index, error_code=why.error_code, error_message=why.message)
                for index in topic.partitions
            ),
        )
        for topic in request.topic_partitions or ()
    )
    return elect_leaders.ElectLeadersResponse(error_code=why.error_code, replica_election_results=tuple(results))


def _refuse_quotas(request: alter_client_quotas.AlterClientQuotasRequest, why: Rejection) -> Message:
    results = (
        altered_client_quotas.EntryData(
            error_code=why.error_code,
            error_message=why.message,
            entity=tuple(
                altered_client_quotas.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                for part in entry.entity
            ),
        )
        for entry in request.entries
    )
    return altered_client_quotas.AlterClientQuotasResponse(entries=tuple(results))


def _refuse_credentials(
    request: alter_user_scram_credentials.AlterUserScramCredentialsRequest, why: Rejection
) -> Message:
    users = dict.fromkeys((*(one.name for one in request.deletions), *(one.name for one in request.upsertions)))
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(
        results=tuple(
            alter_user_scram_credentials.AlterUserScramCredentialsResult(
                user=user, error_code=why.error_code, error_message=why.message
            )
            for user in users
        )
    )


def _on_cluster(operation: Operation, response: type[Message]) -> CheckedApi:
    """An API whose response has an error code for the whole."""
    needs = (on_cluster(operation),)
    return CheckedApi(response=response, needs=lambda request: needs)


def _altering(
    request: type[Message], response: type[Message], refuse: Callable[[Any, Rejection], Message], operation: Operation
) -> CheckedApi:
    """An API whose response has an error code for each part of the request."""
    needs = (on_cluster(operation),)
    return CheckedApi(request=request, response=response, needs=lambda of: needs, refuse=refuse)


CLUSTER_APIS: Mapping[int, CheckedApi] = {
    ApiKey.DESCRIBE_ACLS: _on_cluster(Operation.DESCRIBE, describe_acls.DescribeAclsResponse),
    ApiKey.DESCRIBE_LOG_DIRS: _on_cluster(Operation.DESCRIBE, describe_log_dirs.DescribeLogDirsResponse),
    ApiKey.DESCRIBE_QUORUM: _on_cluster(Operation.DESCRIBE, describe_quorum.DescribeQuorumResponse),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _on_cluster(
        Operation.DESCRIBE, list_partition_reassignments.ListPartitionReassignmentsResponse
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _on_cluster(
        Operation.DESCRIBE, describe_user_scram_credentials.DescribeUserScramCredentialsResponse
    ),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _on_cluster(
        Operation.DESCRIBE_CONFIGS, describe_client_quotas.DescribeClientQuotasResponse
    ),
    ApiKey.LIST_CONFIG_RESOURCES: _on_cluster(
        Operation.DESCRIBE_CONFIGS, list_config_resources.ListConfigResourcesResponse
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _on_cluster(
        Operation.ALTER, alter_partition_reassignments.AlterPartitionReassignmentsResponse
    ),
    ApiKey.UPDATE_FEATURES: _on_cluster(Operation.ALTER, update_features.UpdateFeaturesResponse),
    ApiKey.UNREGISTER_BROKER: _on_cluster(Operation.ALTER, unregister_broker.UnregisterBrokerResponse),
    ApiKey.UNREGISTER_CONTROLLER: _on_cluster(Operation.ALTER, unregister_controller.UnregisterControllerResponse),
    ApiKey.ADD_RAFT_VOTER: _on_cluster(Operation.ALTER, add_raft_voter.AddRaftVoterResponse),
    ApiKey.REMOVE_RAFT_VOTER: _on_cluster(Operation.ALTER, remove_raft_voter.RemoveRaftVoterResponse),
    # A broker lets every user have tokens of its own. Here that user is the sidecar, or the client of another request.
    ApiKey.CREATE_DELEGATION_TOKEN: _on_cluster(Operation.ALTER, create_delegation_token.CreateDelegationTokenResponse),
    ApiKey.RENEW_DELEGATION_TOKEN: _on_cluster(Operation.ALTER, renew_delegation_token.RenewDelegationTokenResponse),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _on_cluster(Operation.ALTER, expire_delegation_token.ExpireDelegationTokenResponse),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: _on_cluster(
        Operation.DESCRIBE, describe_delegation_token.DescribeDelegationTokenResponse
    ),
    ApiKey.CREATE_ACLS: _altering(
        create_acls.CreateAclsRequest, create_acls.CreateAclsResponse, _refuse_creations, Operation.ALTER
    ),
    ApiKey.DELETE_ACLS: _altering(
        delete_acls.DeleteAclsRequest, delete_acls.DeleteAclsResponse, _refuse_filters, Operation.ALTER
    ),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _altering(
        alter_replica_log_dirs.AlterReplicaLogDirsRequest, alter_replica_log_dirs.AlterReplicaLogDirsResponse,
        _refuse_moves, Operation.ALTER,
    ),
    ApiKey.ELECT_LEADERS: _altering(
        elect_leaders.ElectLeadersRequest, elect_leaders.ElectLeadersResponse, _refuse_elections, Operation.ALTER
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: _altering(
        alter_client_quotas.AlterClientQuotasRequest, altered_client_quotas.AlterClientQuotasResponse,
        _refuse_quotas, Operation.ALTER_CONFIGS,
    ),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _altering(
        alter_user_scram_credentials.AlterUserScramCredentialsRequest,
        alter_user_scram_credentials.AlterUserScramCredentialsResponse,
        _refuse_credentials, Operation.ALTER,
    ),
}  # fmt: skip
