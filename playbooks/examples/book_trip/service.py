"""Flights, hotels and cars that can be booked and cancelled; there is no van. The first cancelling of a hotel meets 503."""


def service(away=1):
    left = [away]

    def answer(method, path, query, headers, body):
        what, _, booking = path.strip("/").partition("/")
        if method == "DELETE":
            if what == "hotels" and left[0]:
                left[0] -= 1
                return 503, {"detail": "try again"}
            return 200, {"cancelled": booking}
        if what == "refunds":
            return 201, {"id": f"refund-of-{body['booking']}"}
        if what == "cars" and body["class"] == "van":
            return 409, {"detail": "no van is left"}
        return 201, {"id": f"{what[:-1]}-1"}

    return answer
