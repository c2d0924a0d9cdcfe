"""Two endpoints in pages. The first request of `orders` meets an error, its second a limit."""

ROWS = {"users": [{"id": number} for number in range(7)], "orders": [{"id": number} for number in range(4)]}


def service(faults=(500, 429)):
    left = list(faults)

    def answer(method, path, query, headers, body):
        rows = ROWS.get(path.strip("/"))
        if rows is None:
            return 404, {"detail": f"no endpoint {path}"}
        if path == "/orders" and left:
            status = left.pop(0)
            return status, {"detail": f"scripted {status}"}
        page, size = int(query.get("page", 1)), int(query.get("size", 3))
        part = rows[(page - 1) * size : page * size]
        return 200, {"rows": part, "paging": {"more": page * size < len(rows)}}

    return answer
