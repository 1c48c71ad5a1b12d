"""Every pair of features on one topic, compared with a model of what each client must get."""
