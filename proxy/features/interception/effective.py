"""The interceptors of a topic as they apply, for a person: why they apply, and how they are configured."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from kafka_sidecar.interceptors.catalog import InterceptorCatalog, InterceptorSettings
from kafka_sidecar.interceptors.contract import Interceptor
from kafka_sidecar.interceptors.guard import Guard, has_override
from kafka_sidecar.interceptors.registry import INTERCEPTORS
from kafka_sidecar.plugins.settings import Settings
from kafka_sidecar.proxy.telemetry.hidden_settings import hide_secrets

# Two forms of a hook have one name in metrics and logs.
COUNTED_AS = {
    "on_send_batch": "on_send",
    "on_acknowledgement_batch": "on_acknowledgement",
    "on_acknowledgement_with_headers": "on_acknowledgement",
    "on_consume_batch": "on_consume",
}


def describe_interceptors(catalog: InterceptorCatalog, topic: str) -> list[dict[str, Any]]:
    """Those of a topic, in order."""
    return [_describe(settings, guard, topic) for settings, guard in catalog.opened if guard.applies_to(topic)]


def hooks_of(guard: Guard) -> Iterable[str]:
    """The hooks that the interceptor overrides, or has set on itself, with their names in metrics and logs."""
    one = guard.interceptor
    names = (
        COUNTED_AS.get(name, name)
        for name, hook in INTERCEPTORS.hooks.items()
        if hook.base is not Interceptor
        and isinstance(one, hook.base)
        and (name in vars(one) or (hasattr(one, name) and has_override(one, hook.base, name)))
    )
    return dict.fromkeys(names)


def _describe(settings: InterceptorSettings, guard: Guard, topic: str) -> dict[str, Any]:
    one = guard.interceptor
    own = getattr(one, "settings", None)
    values = own.model_dump(mode="json", fallback=str) if isinstance(own, Settings) else dict(settings.settings)
    return {
        "name": guard.name,
        "class": f"{type(one).__module__}:{type(one).__qualname__}",
        "source": next(f"topics: {name}" for name in guard.topics if fnmatchcase(topic, name)),
        "hooks": list(hooks_of(guard)),
        "disabled": guard.is_disabled,
        "settings": hide_secrets(values),
    }
