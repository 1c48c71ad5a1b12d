"""Rate limits: how much clients may produce, consume and ask for in a second (KIP-13, KIP-124, KIP-219)."""
