"""From the configuration file to interceptors, loaded and configured; and those of a topic described for a person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import Interceptor as InterceptorContract
from kafka_sidecar.interceptors.guard import Client, Guard, Limits, Place, Report, has_override
from kafka_sidecar.interceptors.registry import INTERCEPTORS
from kafka_sidecar.plugins.patterns import matches
from kafka_sidecar.plugins.settings import shown_settings
from kafka_sidecar.proxy.config.loading import Config
from kafka_sidecar.proxy.config.mistakes import Mistake, explain_plugin
from kafka_sidecar.proxy.config.registries import registries
from kafka_sidecar.proxy.config.sections import Interceptor
from kafka_sidecar.proxy.telemetry.readable import hide_secrets

# Two forms of a hook have one name in metrics and logs.
COUNTED_AS = {
    "on_send_batch": "on_send",
    "on_acknowledgement_batch": "on_acknowledgement",
    "on_acknowledgement_with_headers": "on_acknowledgement",
    "on_consume_batch": "on_consume",
}


def catalog(config: Config, report: Report, previous: InterceptorCatalog | None = None) -> InterceptorCatalog:
    """The interceptors of a configuration; those of the previous one that have not changed go on as they are.

    Raises:
        ValueError: one line that says which is wrong.
    """
    try:
        settings = [_settings(config, one) for one in config.interceptors]
        return InterceptorCatalog(settings, report, config.interception.max_commit_metadata, previous)
    except ValueError as error:
        raise ValueError(f"interceptors: {error}") from error


def opens_others(config: Config) -> bool:
    """Whether some interceptors are no part of the sidecar; the others are imported."""
    types = {one.type for one in config.interceptors}
    INTERCEPTORS.import_built_in(types)
    return not types <= INTERCEPTORS.built_in.keys()


def find_mistakes(config: Config) -> Iterator[Mistake]:
    """All that is wrong with interceptors; each is opened alone: `catalog` stops at the first mistake."""
    for index, one in enumerate(config.interceptors):
        settings = _settings(config, one)
        try:
            InterceptorCatalog([settings], NoReport())
        except ValueError as error:
            yield from explain_plugin(error, f"interceptor {settings.name}", ("interceptors", index))


class NoReport:
    """Drops what interceptors report, where they are loaded but not run."""

    def failed(self, interceptor: str, hook: str, error: BaseException, place: Place | None = None) -> None: ...

    def slow(self, interceptor: str, hook: str, seconds: float, place: Place | None = None) -> None: ...

    def disabled(self, interceptor: str, failures: int, pause_s: float, client: Client | None = None) -> None: ...


def _settings(config: Config, one: Interceptor) -> InterceptorSettings:
    limits = Limits(one.budget, one.max_failures, one.pause)
    settings = one.settings_with(registries(config.schema_registries))
    return InterceptorSettings(one.type, one.name or one.type, tuple(one.topics), one.class_path, limits, settings)


def describe_interceptors(catalog: InterceptorCatalog, topic: str) -> list[dict[str, Any]]:
    """Those of a topic, in order."""
    return [_describe(settings, guard, topic) for settings, guard in catalog.opened if guard.applies_to(topic)]


def hooks_of(guard: Guard) -> Iterable[str]:
    """The hooks that the interceptor overrides, or has set on itself, with their names in metrics and logs."""
    one = guard.interceptor
    names = (
        COUNTED_AS.get(name, name)
        for name, hook in INTERCEPTORS.hooks.items()
        if hook.base is not InterceptorContract
        and isinstance(one, hook.base)
        and (name in vars(one) or (hasattr(one, name) and has_override(one, hook.base, name)))
    )
    return dict.fromkeys(names)


def _describe(settings: InterceptorSettings, guard: Guard, topic: str) -> dict[str, Any]:
    one = guard.interceptor
    return {
        "name": guard.name,
        "class": f"{type(one).__module__}:{type(one).__qualname__}",
        "source": next(f"topics: {name}" for name in guard.topics if matches(topic, [name])),
        "hooks": list(hooks_of(guard)),
        "disabled": guard.is_disabled,
        "settings": hide_secrets(shown_settings(one, settings.settings)),
    }
