"""One job: it is taken at the third try, and done when it is looked at for the third time."""


def service(refusals=(429, 500), states=("queued", "running", "done")):
    refused, left = list(refusals), list(states)

    def answer(method, path, query, headers, body):
        if method == "POST" and refused:
            status = refused.pop(0)
            return status, {"detail": f"scripted {status}"}
        if method == "POST":
            return 202, {"id": "j1"}
        return 200, {"state": left.pop(0) if len(left) > 1 else left[0], "rows": 3}

    return answer
