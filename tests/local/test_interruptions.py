import httpx
import pytest

from local.interruptions import InterruptedTransport, Interruption


@pytest.mark.parametrize(
    ("interruption", "arrived"),
    [(Interruption.UNREACHABLE, 0), (Interruption.SERVER_ERROR, 0), (Interruption.ANSWER_LOST, 1)],
)
async def test_an_interrupted_request_fails_and_the_next_is_answered(interruption: Interruption, arrived: int) -> None:
    requests = list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200)

    transport = InterruptedTransport(httpx.MockTransport(answer))
    transport.interruptions.append(interruption)

    async with httpx.AsyncClient(transport=transport, base_url="https://service.example.org") as http:
        with pytest.raises(httpx.HTTPError):
            (await http.get("/")).raise_for_status()
        assert len(requests) == arrived

        assert (await http.get("/")).status_code == 200
    assert len(requests) == arrived + 1
