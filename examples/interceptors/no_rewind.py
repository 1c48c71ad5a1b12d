"""pre_commit: a late member of a group cannot commit smaller offsets; an admin can."""

from __future__ import annotations

from kafka_sidecar.interceptors.contract import ConsumerInterceptor, OffsetAndMetadata, Offsets, TopicPartition


class NoRewind(ConsumerInterceptor):
    """Removes offsets of members that are lower than the last one that this sidecar committed for the group.

    An admin is not a member and may reset offsets; nor is a consumer that assigns its partitions itself.
    """

    def __init__(self) -> None:
        self.reached: dict[tuple[str | None, TopicPartition], int] = {}

    def pre_commit(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        group = offsets.context.group_id
        if not offsets.context.is_member:
            return offsets
        return {
            partition: offset
            for partition, offset in offsets.items()
            if offset.offset >= self.reached.get((group, partition), 0)
        }

    def on_commit(self, offsets: Offsets) -> None:
        for partition, offset in offsets.items():
            self.reached[offsets.context.group_id, partition] = offset.offset
