"""Sign in, register a push token and whitelist a sender: `client.py URL DOMAIN SEED TOKEN`, all in 40 lines."""

import sys

import httpx
import sr25519


def sign_in(api: httpx.Client, domain: str, keypair: tuple[bytes, bytes]) -> None:
    client_id = keypair[0].hex()
    asked = api.post("/v1/auth/challenges", json={"client_id": client_id}).raise_for_status().json()
    lines = ("clarion login v1", f"domain: {domain}", f"client: {client_id}", f"challenge: {asked['challenge']}")
    message = f"<Bytes>{'\n'.join(lines)}</Bytes>"
    signature = sr25519.sign(keypair, message.encode()).hex()
    signed = {"client_id": client_id, "challenge": asked["challenge"], "signature": signature}
    token = api.post("/v1/auth/tokens", json=signed).raise_for_status().json()["token"]
    api.headers["Authorization"] = f"Bearer {token}"


def register(api: httpx.Client, notification_type: str, token: str) -> str:
    answer = api.post("/v1/subscriptions", json={"notificationType": notification_type, "token": token})
    if answer.status_code == 409 and "subscription_id" in answer.json():
        return str(answer.json()["subscription_id"])  # registered before, by this very client
    return str(answer.raise_for_status().json()["subscription_id"])


def whitelist(api: httpx.Client, subscription_id: str, rules: list[tuple[str, str]]) -> None:
    wanted = [{"sender_pubkey": sender, "topic": topic} for sender, topic in rules]
    body = {"subscription_id": subscription_id, "rules": wanted}
    api.put("/v1/subscriptions/rules", json=body).raise_for_status()


if __name__ == "__main__":
    url, domain, seed, push_token = sys.argv[1:]
    with httpx.Client(base_url=url) as api:
        sign_in(api, domain, sr25519.pair_from_seed(bytes.fromhex(seed)))
        whitelist(api, register(api, "fcm", push_token), [("ab" * 32, "01" * 32), ("cd" * 32, "02" * 32)])
        print(api.get("/v1/subscriptions").text)
