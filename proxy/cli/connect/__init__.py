"""What a start would meet: brokers, logins, topics, rights and services are tried, and nothing is changed."""
