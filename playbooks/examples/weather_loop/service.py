"""Readings of three cities, page by page; Lima is away for its first two requests."""

PAGES = {"oslo": [[3.0, 4.0], [5.5]], "lima": [[19.0]], "pune": [[30.0, 31.0], [29.0], [28.0]]}


def service(away=2):
    left = {"lima": away}

    def answer(method, path, query, headers, body):
        city = path.rsplit("/", 1)[1]
        if city not in PAGES:
            return 404, {"detail": f"no city {city}"}
        if left.get(city):
            left[city] -= 1
            return 503, {"detail": "try again"}
        page = int(query.get("page", 1))
        readings = [{"city": city, "celsius": value} for value in PAGES[city][page - 1]]
        return 200, {"readings": readings, "next_page": page + 1 if page < len(PAGES[city]) else None}

    return answer
