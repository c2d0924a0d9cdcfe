/** What starts when: the next moments of all schedules, by day. */
import { useQueries } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import type { Schemas } from "../../api/client";
import { useZone } from "../../app/preferences";
import { Skeleton } from "../../design/Skeleton";
import { zoneName } from "../../design/time";
import { byDay, type Line } from "./byDay";
import { nextOf } from "./queries";

const EACH = 20;
const MOST_SCHEDULES = 50;
const DAYS = 7;

export function Calendar({ schedules }: { schedules: Schemas["ScheduleView"][] }) {
  const zone = useZone();
  const active = schedules.filter(({ state }) => state === "active").slice(0, MOST_SCHEDULES);
  const answers = useQueries({ queries: active.map((schedule) => nextOf(schedule, EACH)) });
  const starts = active.flatMap(({ name, path }, index) =>
    (answers[index]?.data ?? []).map((moment) => ({ schedule: name, path, at: Date.parse(moment) })),
  );
  const pending = answers.some(({ isPending }) => isPending);
  if (starts.length === 0 && !pending) return null;
  return (
    <>
      <h2>Next starts</h2>
      <section className="card" aria-label="Next starts">
        <p className="muted small">In {zoneName(zone)}: the next {DAYS} days with starts, of each schedule at most {EACH} of them.</p>
        {starts.length === 0 ? <Skeleton lines={DAYS} /> : null}
        <ol className="calendar">
          {byDay(starts, zone, DAYS).map(({ day, lines }) => (
            <li key={day}>
              <h3>{day}</h3>
              <ul>
                {lines.map((line) => (
                  <li key={line.schedule}>
                    <StartLine line={line} />
                  </li>
                ))}
              </ul>
            </li>
          ))}
        </ol>
      </section>
    </>
  );
}

function StartLine({ line: { path, times, more } }: { line: Line }) {
  return (
    <>
      <Link to="/playbooks/$" params={{ _splat: path }}>
        {path}
      </Link>
      <span className="calendar-times">
        {times.join(", ")}
        {more > 0 ? ` and ${more} more` : ""}
      </span>
    </>
  );
}
