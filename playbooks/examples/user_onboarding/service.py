"""Accounts, workspaces, seats and messages that can be made; every answer is an id."""

NAMES = ("accounts", "workspaces", "seats", "messages")


def service():
    def answer(method, path, query, headers, body):
        name = path.strip("/")
        return (201, {"id": f"{name}-1"}) if name in NAMES else (404, {"detail": f"nothing at {path}"})

    return answer
