from uuid import UUID

import httpx
import pytest

from local.zulip_bouncer import RETRIED, BouncerRefusalError, BouncerUnavailableError
from tests.local.zulip_bouncer_answers import ORG_ID, ORG_KEY, Answer, Answering, error, success

REALM = UUID("f2a1c0de-0000-4000-8000-000000000001")
STATUS = success(last_realm_count_id=0, last_installation_count_id=0, last_realmauditlog_id=0)


async def test_a_server_registers_by_a_form_and_without_credentials() -> None:
    answering = Answering(success(created=True))

    created = await answering.bouncer().register_server("chat.example.org", "admin@chat.example.org")

    assert created
    assert answering.routes == ["server/register"]
    assert answering.fields() == {
        "zulip_org_id": str(ORG_ID),
        "zulip_org_key": ORG_KEY,
        "hostname": "chat.example.org",
        "contact_email": "admin@chat.example.org",
    }
    assert "authorization" not in answering.requests[0].headers


async def test_a_key_that_the_bouncer_has_replaced_is_used_once_it_is_kept() -> None:
    answering = Answering(success(created=False), success())
    bouncer, new_key = answering.bouncer(), "n" * 64

    created = await bouncer.register_server("chat.example.org", "admin@chat.example.org", new_org_key=new_key)
    bouncer.use_key(new_key)
    await bouncer.deactivate_server()

    assert not created
    basic = httpx.BasicAuth(str(ORG_ID), new_key)
    [expected] = [request.headers["authorization"] for request in basic.auth_flow(httpx.Request("GET", "https://a"))]
    assert answering.requests[1].headers["authorization"] == expected
    assert answering.content() == {}


async def test_realms_are_reported_with_the_statistics() -> None:
    realms = {str(REALM): {"can_push": True, "expected_end_timestamp": None}}
    answering = Answering(STATUS, success(realms=realms))

    served = await answering.bouncer().report_realms([{"uuid": str(REALM), "host": "chat.example.org"}])

    assert served == {REALM: True}
    assert answering.routes == ["server/analytics/status", "server/analytics"]
    assert answering.fields()["realms"] == f'[{{"uuid": "{REALM}", "host": "chat.example.org"}}]'
    assert answering.fields()["installation_counts"] == "[]"


async def test_pages_of_the_expired_are_asked_for_until_there_is_no_cursor() -> None:
    answering = Answering(success(page=1, cursor="next"), success(page=2, cursor=None))

    pages = [page["page"] async for page in answering.bouncer().expired(REALM)]

    assert pages == [1, 2]
    queries = [dict(request.url.params) for request in answering.requests]
    assert queries == [{"realm_uuid": str(REALM)}, {"realm_uuid": str(REALM), "cursor": "next"}]


@pytest.mark.parametrize(
    "answer",
    [error("", 500), error("INTERNAL_SERVER_ERROR", 503), httpx.ConnectError("no"), httpx.ReadTimeout("no")]
    + [error(code, 403) for code in sorted(RETRIED)],
)
async def test_no_answer_a_fault_of_the_bouncer_and_what_an_administrator_mends_are_temporary(
    answer: Answer | Exception,
) -> None:
    answering = Answering(answer)

    with pytest.raises(BouncerUnavailableError):
        await answering.bouncer().notify(REALM, {})


@pytest.mark.parametrize("answer", [error("REQUEST_EXPIRED"), error("RATE_LIMIT_HIT", 429)])
async def test_any_other_error_is_final_and_known_by_its_code(answer: Answer) -> None:
    with pytest.raises(BouncerRefusalError) as refusal:
        await Answering(answer).bouncer().notify(REALM, {})

    assert refusal.value.code == answer[1]["code"]
