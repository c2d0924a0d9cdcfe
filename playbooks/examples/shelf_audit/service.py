"""Two shelves in pages. The first request of shelf B7 is answered with 503; any other shelf is unknown."""

ITEMS = {"A1": [f"a{number}" for number in range(5)], "B7": [f"b{number}" for number in range(4)]}


def service(away=1):
    left = {"B7": away}

    def answer(method, path, query, headers, body):
        shelf = path.rsplit("/", 1)[1]
        if shelf not in ITEMS:
            return 404, {"detail": f"no shelf {shelf}"}
        if left.get(shelf):
            left[shelf] -= 1
            return 503, {"detail": "try again"}
        page, size = int(query["page"]), int(query["size"])
        rows = ITEMS[shelf][(page - 1) * size : page * size]
        return 200, {"rows": rows, "paging": {"more": page * size < len(ITEMS[shelf])}}

    return answer
