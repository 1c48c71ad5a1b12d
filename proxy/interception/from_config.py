"""From the configuration file to interceptors, loaded and configured."""

from __future__ import annotations

from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.guard import Limits, Report
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.sections import Interceptor


def catalog(config: Config, report: Report, previous: InterceptorCatalog | None = None) -> InterceptorCatalog:
    """The interceptors of a configuration; those of the previous one that have not changed go on as they are.

    Raises:
        ValueError: one line that says which is wrong.
    """
    try:
        settings = [_settings(one) for one in config.interceptors]
        return InterceptorCatalog(settings, report, config.interception.max_commit_metadata, previous)
    except ValueError as error:
        raise ValueError(f"interceptors: {error}") from error


def _settings(one: Interceptor) -> InterceptorSettings:
    limits = Limits(one.budget, one.max_failures, one.pause)
    return InterceptorSettings(one.type, one.name or one.type, tuple(one.topics), one.class_path, limits, one.settings)
