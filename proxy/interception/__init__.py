"""Interceptors applied to Produce, Fetch, OffsetCommit and TxnOffsetCommit."""
