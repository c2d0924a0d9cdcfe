"""A model that turns words into JSON and offers into words, and a flight API behind a token.

The model's first answer is no JSON, its second lacks what it should have; the flight API's first token has run out.
"""

import json

BEARER = "Bearer sample-token-of-the-text-api"
CLIENT = ("noetl-example", "sample-secret-of-the-flight-api")
QUERY = {
    "origin": "BER",
    "destination": "LIS",
    "depart": "2027-05-10",
    "return": "2027-05-17",
    "travellers": 2,
    "max_price": 400,
    "prefer": "early",
}
ANSWERS = (
    "Of course! You want to fly from Berlin to Lisbon.",
    json.dumps(QUERY | {"origin": "Berlin"}),
    f"Here it is:\n```json\n{json.dumps(QUERY)}\n```",
)
OFFERS = [
    {"carrier": "Atlantica", "departs": "06:15", "minutes": 230, "stops": 0, "price": 389},
    {"carrier": "Iberwing", "departs": "11:40", "minutes": 225, "stops": 0, "price": 312},
    {"carrier": "Norddeutsche", "departs": "09:05", "minutes": 410, "stops": 1, "price": 198},
    {"carrier": "Aurora", "departs": "05:50", "minutes": 220, "stops": 0, "price": 455},
]


def _said(text):
    return 200, {"choices": [{"message": {"role": "assistant", "content": text}}]}


def service(answers=ANSWERS, offers=OFFERS, stale=1):
    said, tokens = list(answers), [0]

    def model(body):
        if "Summarise" in body["messages"][0]["content"]:
            best = json.loads(body["messages"][1]["content"])[0]
            return _said(f"{best['carrier']} leaves at {best['departs']} for {best['price']} euros each.")
        return _said(said.pop(0) if len(said) > 1 else said[0])

    def token(body):
        if (body.get("client_id"), body.get("client_secret")) != CLIENT:
            return 401, {"error": "invalid_client"}
        tokens[0] += 1
        return 200, {"access_token": f"flight-token-{tokens[0]}", "token_type": "Bearer", "expires_in": 1800}

    def answer(method, path, query, headers, body):
        sent = headers.get("authorization", "")
        if path == "/text/v1/chat/completions":
            return model(body) if sent == BEARER else (401, {"error": "unknown token"})
        if path == "/flights/oauth/token":
            return token(body)
        if path == "/flights/v2/offers":
            fresh = sent.startswith("Bearer flight-token-") and int(sent.rsplit("-", 1)[1]) > stale
            return (200, {"offers": offers}) if fresh else (401, {"error": "token expired"})
        return 404, {"error": f"nothing at {path}"}

    return answer
