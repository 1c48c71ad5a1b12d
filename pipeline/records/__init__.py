"""Records of topics for Spark, with large messages whole."""
