"""What moto and botocore compute anew for each request, though it follows from their own code and names alone.

moto lists the methods of the class that answers, spells names in snake case letter by letter, and puts a service's
addresses together; botocore checks each letter of its user agent. That was a fifth of the crash tests' time.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import moto.core.responses
import moto.sqs.models
import pytest
from botocore import useragent
from moto.core.base_backend import BaseBackend

FUNCTIONS: tuple[tuple[ModuleType, str], ...] = (
    (moto.core.responses, "camelcase_to_underscores"),
    (moto.core.responses, "method_names_from_class"),
    (moto.sqs.models, "camelcase_to_underscores"),
    (useragent, "sanitize_user_agent_string_component"),
)
"""Each by the module that calls it. They go by their arguments alone, and whoever calls them changes no result."""
MOTOS_URLS: Any = BaseBackend.urls
"""The property as moto has it, which goes by the backend's class."""
_urls: dict[type[BaseBackend], Any] = {}


def install() -> None:
    """For all of the process."""
    for module, name in FUNCTIONS:
        setattr(module, name, cache(getattr(module, name)))
    BaseBackend.urls = property(_urls_of)  # type: ignore[assignment, method-assign]


def _urls_of(backend: BaseBackend) -> Any:
    kind = type(backend)
    if kind not in _urls:
        _urls[kind] = MOTOS_URLS.fget(backend)
    return _urls[kind]


@contextmanager
def more_methods(kind: type, **methods: Callable[..., Any]) -> Iterator[None]:
    """Have one of moto's classes answer further requests, or some otherwise."""
    names: Any = getattr(moto.core.responses, "method_names_from_class")  # noqa: B009 - which it does not export
    with pytest.MonkeyPatch.context() as patch:
        for name, method in methods.items():
            patch.setattr(kind, name, method, raising=False)
        names.cache_clear()
        yield
    names.cache_clear()
