"""Refunds; the first request is answered with 502."""


def service(faults=(502,)):
    left = list(faults)

    def answer(method, path, query, headers, body):
        if method != "POST" or path != "/refunds":
            return 404, {"detail": f"nothing at {path}"}
        if left:
            return left.pop(0), {"detail": "try again"}
        return 201, {"id": f"r-{body['order']}", "amount": body["amount"]}

    return answer
