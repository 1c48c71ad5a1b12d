"""PromQL in the forms that panels and alerts share."""

from __future__ import annotations

PREFIX = "kafka_sidecar_"
# The dashboard's variables; their value for "All", .* , matches targets without such a label too.
CHOSEN = 'namespace=~"$namespace",pod=~"$pod",instance=~"$instance"'
WINDOW = "$__rate_interval"
TARGET = "namespace, pod, instance"  # one sidecar: outside of Kubernetes it has the last label alone


def chosen(metric: str, only: str = "") -> str:
    """A metric of the sidecars that are chosen on the dashboard."""
    return f"{PREFIX}{metric}{{{','.join(filter(None, (CHOSEN, only)))}}}"


def total(metric: str, by: str = "", only: str = "") -> str:
    """A gauge, summed."""
    return f"sum{_by(by)}({chosen(metric, only)})"


def rate(metric: str, by: str = "", only: str = "") -> str:
    """A counter, per second."""
    return f"sum{_by(by)}(rate({chosen(metric, only)}[{WINDOW}]))"


def quantile(share: float, metric: str, by: str = "", only: str = "") -> str:
    """A quantile of a histogram."""
    labels = ", ".join(filter(None, (by, "le")))
    return f"histogram_quantile({share:g}, {rate(f'{metric}_bucket', labels, only)})"


def own(expression: str) -> str:
    """A standard metric of processes, of the chosen sidecars alone: other programs have it too."""
    return f"({expression}) and on (job, instance) {chosen('build_info')}"


def grown(metric: str, window: str, by: str = "", only: str = "") -> str:
    """Whether a counter has grown. `increase` alone does not see a series that begins with its first event."""
    series = f"{PREFIX}{metric}{{{only}}}" if only else PREFIX + metric
    labels = ", ".join(filter(None, (TARGET, by)))
    first = f"({series} > 0) unless {series} offset {window}"
    return f"sum by ({labels}) (increase({series}[{window}]) > 0 or ({first})) > 0"


def _by(labels: str) -> str:
    return f" by ({labels}) " if labels else " "
