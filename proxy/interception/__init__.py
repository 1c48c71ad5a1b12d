"""Where interceptors hang in the proxy: Produce, Fetch, OffsetCommit and TxnOffsetCommit."""
