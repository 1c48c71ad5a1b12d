"""The hops of a record: their names, and the events at the end of each."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, functions

from kafka_sidecar.audit.contract import SEVERAL_GROUPS
from kafka_sidecar.pipeline.reconcile.sql import column

PRODUCE = "produce"  # attempt to acknowledgement
DELIVER = "deliver"  # acknowledgement to a consumer group
SHARE = "share"  # acknowledgement to a share group, which gives out records in any order, and again
READ = "read"  # to consumers whose group is not known: nothing says what they should be sent
GROUPED = (DELIVER, SHARE)


def is_group() -> Column:
    """Whether it is known in which group a consumer reads."""
    return functions.coalesce(column("group") != SEVERAL_GROUPS, functions.lit(False))


def with_hop(events: DataFrame) -> DataFrame:
    """The events at the end of a hop, with its name, and with the group where the hop is one of `GROUPED`."""
    tier = column("tier")
    fetched = functions.when(is_group(), DELIVER).otherwise(READ)
    hop = functions.when(tier == "produce_ack", PRODUCE).when(tier == "share_delivered", SHARE)
    named = events.withColumn("hop", hop.when(tier == "fetch_delivered", fetched)).where("hop IS NOT NULL")
    return named.withColumn("group", functions.when(column("hop").isin(*GROUPED), column("group")))


def hop_of_group() -> Column:
    """The hop of a group, of its rows with a column ``hop``. To aggregate text, Spark would sort all rows."""
    return functions.when(functions.max(column("hop") == SHARE), SHARE).otherwise(DELIVER).alias("hop")
