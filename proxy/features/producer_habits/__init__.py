"""How producers of a topic must send: acks, compression, sizes of batches, names, software, transactions."""
