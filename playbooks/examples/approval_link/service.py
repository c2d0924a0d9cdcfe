"""A mailbox that only keeps, and a bank that pays."""


def service():
    mails = []

    def answer(method, path, query, headers, body):
        if path == "/mail":
            if method == "POST":
                mails.append(body)
                return 202, {"kept": len(mails)}
            return 200, mails
        if method == "POST" and path == "/payments":
            return 201, {"expense": body["expense"], "paid": body["amount"]}
        return 404, {"detail": f"nothing at {path}"}

    return answer
