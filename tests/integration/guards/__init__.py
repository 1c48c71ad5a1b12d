"""Guards of topics beside brokers whose policy classes say the same."""
