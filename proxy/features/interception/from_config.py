"""From the configuration file to interceptors, loaded and configured."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.guard import Limits, Place, Report
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Mistake, explain_plugin
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


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """All that is wrong with interceptors; each is opened alone: `catalog` stops at the first mistake."""
    for index, one in enumerate(config.interceptors):
        settings = _settings(one)
        try:
            InterceptorCatalog([settings], NoReport())
        except ValueError as error:
            yield from explain_plugin(error, f"interceptor {settings.name}", ("interceptors", index))


class NoReport:
    """Drops what interceptors report, where they are loaded but not run."""

    def failed(self, interceptor: str, hook: str, error: BaseException, place: Place | None = None) -> None: ...

    def slow(self, interceptor: str, hook: str, seconds: float, place: Place | None = None) -> None: ...

    def disabled(self, interceptor: str, failures: int, pause_s: float) -> None: ...


def _settings(one: Interceptor) -> InterceptorSettings:
    limits = Limits(one.budget, one.max_failures, one.pause)
    return InterceptorSettings(one.type, one.name or one.type, tuple(one.topics), one.class_path, limits, one.settings)
