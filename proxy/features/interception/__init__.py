"""Interceptors applied to Produce, Fetch, ShareFetch, OffsetCommit and TxnOffsetCommit."""
