"""Several processes that serve clients, and the one that supervises them."""
