"""A clinic's API: ten facilities with a thousand patients each, five kinds of records for every patient, in pages; so many requests a second."""

import threading
import time

FACILITIES, PATIENTS = 10, 1000
TYPES = ("assessments", "conditions", "medications", "observations", "procedures")
PAGE = 10


def records_of(patient, kind):
    """How many records of a kind a patient has: 1 to 15, so that some have two pages."""
    return (patient * 7 + TYPES.index(kind) * 3) % 15 + 1


def service(rate=200, burst=100):
    left, then, lock = float(burst), time.monotonic(), threading.Lock()

    def is_too_fast():
        nonlocal left, then
        with lock:
            now = time.monotonic()
            left, then = min(burst, left + (now - then) * rate), now
            if left < 1:
                return True
            left -= 1
            return False

    def pages(rows, query):
        number, size = int(query.get("page", 1)), min(int(query.get("page_size", PAGE)), 100)
        part = rows[(number - 1) * size : number * size]
        return 200, {"data": part, "paging": {"page": number, "has_more": number * size < len(rows)}}

    def answer(method, path, query, headers, body):
        if is_too_fast():
            return 429, {"detail": f"no more than {rate} requests a second"}, {"Retry-After": "1"}
        match path.strip("/").split("/"):
            case ["facilities"]:
                return pages(
                    [{"id": number, "name": f"Facility {number}"} for number in range(1, FACILITIES + 1)],
                    query,
                )
            case ["facilities", facility, "patients"]:
                first = (int(facility) - 1) * PATIENTS + 1
                return pages([{"id": number} for number in range(first, first + PATIENTS)], query)
            case ["patients", patient, kind] if kind in TYPES:
                number = int(patient)
                found = range(1, records_of(number, kind) + 1)
                return pages(
                    [{"id": f"{number}-{place}", "value": number % 97 + place} for place in found], query
                )
            case ["totals"]:
                facilities, patients = int(query["facilities"]), int(query["patients"])
                chosen = [
                    facility * PATIENTS + number
                    for facility in range(facilities)
                    for number in range(1, patients + 1)
                ]
                return 200, {kind: sum(records_of(patient, kind) for patient in chosen) for kind in TYPES}
        return 404, {"detail": f"nothing at {path}"}

    return answer
