"""The Grafana dashboard and the alert rules, from two tables: panels and alerts. `make dashboards` writes both."""
