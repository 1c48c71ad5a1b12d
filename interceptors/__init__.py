"""What is observed or edited on the way: the contracts of KIP-42 and KIP-547, and the interceptors that come along."""
