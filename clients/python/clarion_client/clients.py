"""The clients: both run the same operations, one over `httpx.Client`, the other over `httpx.AsyncClient`.

What is httpx's own stays so: address, authentication, timeouts, proxies. Its errors, such as `httpx.ConnectError`, pass
through; whether anything was changed then, nobody knows, and docs/errors.md says what may be repeated.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate

import httpx

from clarion_client import operations
from clarion_client.operations import Operation, Request
from clarion_client.problems import Problem, retry_after

PATIENCE_S = 30.0
MOST_REPEATS = 3


def _blocking[**P, T](operation: Callable[P, Operation[T]]) -> Callable[Concatenate["Client", P], T]:
    @wraps(operation)
    def method(client: "Client", /, *args: P.args, **options: P.kwargs) -> T:
        return client.run(operation(*args, **options))

    return method


def _asynchronous[**P, T](
    operation: Callable[P, Operation[T]],
) -> Callable[Concatenate["AsyncClient", P], Coroutine[Any, Any, T]]:
    @wraps(operation)
    async def method(client: "AsyncClient", /, *args: P.args, **options: P.kwargs) -> T:
        return await client.run(operation(*args, **options))

    return method


@dataclass(frozen=True, slots=True)
class Client:
    """`http` has the API's address as its `base_url` and `SignIn` or `Bearer` as its `auth`.

    A request that the API can't do for now is repeated when the API says, waiting for `patience` seconds at most in all.
    """

    http: httpx.Client
    patience: float = PATIENCE_S

    register_subscription = _blocking(operations.register_subscription)
    list_subscriptions = _blocking(operations.list_subscriptions)
    get_subscription = _blocking(operations.get_subscription)
    change_subscription = _blocking(operations.change_subscription)
    remove_subscriptions = _blocking(operations.remove_subscriptions)
    replace_token = _blocking(operations.replace_token)
    prove_token = _blocking(operations.prove_token)
    request_code = _blocking(operations.request_code)
    replace_rules = _blocking(operations.replace_rules)
    add_rules = _blocking(operations.add_rules)
    remove_rules = _blocking(operations.remove_rules)
    list_deliveries = _blocking(operations.list_deliveries)
    push_directly = _blocking(operations.push_directly)

    def run[T](self, operation: Operation[T]) -> T:
        steps = with_repeats(operation, self.patience)
        try:
            request = next(steps)
            while True:
                time.sleep(request.delay)
                request = steps.send(self.http.request(request.method, request.path, json=request.body))
        except StopIteration as end:
            result: T = end.value
            return result


@dataclass(frozen=True, slots=True)
class AsyncClient:
    """As `Client`, for asyncio."""

    http: httpx.AsyncClient
    patience: float = PATIENCE_S

    register_subscription = _asynchronous(operations.register_subscription)
    list_subscriptions = _asynchronous(operations.list_subscriptions)
    get_subscription = _asynchronous(operations.get_subscription)
    change_subscription = _asynchronous(operations.change_subscription)
    remove_subscriptions = _asynchronous(operations.remove_subscriptions)
    replace_token = _asynchronous(operations.replace_token)
    prove_token = _asynchronous(operations.prove_token)
    request_code = _asynchronous(operations.request_code)
    replace_rules = _asynchronous(operations.replace_rules)
    add_rules = _asynchronous(operations.add_rules)
    remove_rules = _asynchronous(operations.remove_rules)
    list_deliveries = _asynchronous(operations.list_deliveries)
    push_directly = _asynchronous(operations.push_directly)

    async def run[T](self, operation: Operation[T]) -> T:
        steps = with_repeats(operation, self.patience)
        try:
            request = next(steps)
            while True:
                await asyncio.sleep(request.delay)
                request = steps.send(await self.http.request(request.method, request.path, json=request.body))
        except StopIteration as end:
            result: T = end.value
            return result


def with_repeats[T](operation: Operation[T], patience: float) -> Operation[T]:
    """The operation, sent any answers: it sees only successful ones. Raises `Problem` for what can't be repeated."""
    try:
        request = next(operation)
        while True:
            request = operation.send((yield from _until_success(request, patience)))
    except StopIteration as end:
        result: T = end.value
        return result


def _until_success(request: Request, patience: float) -> Operation[httpx.Response]:
    answer = yield request
    for _ in range(MOST_REPEATS):
        wait = retry_after(answer)
        if wait is None or wait > patience:
            break
        patience -= wait
        answer = yield replace(request, delay=wait)
    if not answer.is_success:
        raise Problem.of(answer)
    return answer
