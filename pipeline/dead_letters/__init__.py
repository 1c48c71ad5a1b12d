"""Dead letters with Spark, for topics with many: a report, and a replay of many partitions at once."""
