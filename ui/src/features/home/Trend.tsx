/** How executions ended in the last day, by the hour: bars of counts, and durations below; the same as a table. */
import { useQuery } from "@tanstack/react-query";

import type { Schemas } from "../../api/client";
import { useZone } from "../../app/preferences";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Table } from "../../design/Table";
import { durationText, momentText, toMillis, type Zone } from "../../design/time";
import { statsQuery } from "./queries";

type Bucket = Schemas["StatsBucket"];

const STEP = 24;
const BAR = 18;
const HEIGHT = 72;
const PARTS = ["completed", "cancelled", "failed"] as const;

export function Trend() {
  const query = useQuery(statsQuery());
  return (
    <section className="card card-flush home-wide" aria-label="Last 24 hours">
      <div className="panel-head">
        <h2>Last 24 hours</h2>
      </div>
      <Loaded query={query} lines={4}>
        {(stats) => <Shown stats={stats} />}
      </Loaded>
    </section>
  );
}

function Shown({ stats }: { stats: Schemas["Stats"] }) {
  const zone = useZone();
  const { buckets } = stats;
  const sums = PARTS.map((part) => buckets.reduce((sum, bucket) => sum + bucket[part], 0));
  const words = PARTS.map((part, at) => `${sums[at]?.toLocaleString("en")} ${part}`).join(", ");
  return (
    <div className="trend stack">
      <div className="trend-keys row">
        {PARTS.map((part, at) => (
          <span key={part} className="row small">
            <span className={`trend-key trend-${part}`} />
            <strong className="numeric">{sums[at]?.toLocaleString("en")}</strong> {part}
          </span>
        ))}
      </div>
      <Bars label={`Executions that ended, by the hour: ${words}`} buckets={buckets} zone={zone} />
      <Durations buckets={buckets} zone={zone} />
      <div className="trend-axis small muted">
        <Moment at={buckets[0]?.at} />
        <Moment at={stats.until} />
      </div>
      {stats.complete_from === null ? null : (
        <p className="small muted">
          More ended than one request counts: figures before <Moment at={stats.complete_from} /> are too low.
        </p>
      )}
      <details>
        <summary>As a table</summary>
        <Table
          label="Executions that ended, by the hour"
          rows={[...buckets].reverse()}
          rowKey={(bucket) => String(bucket.at)}
          columns={[
            { title: "Hour from", cell: (bucket) => <Moment at={bucket.at} /> },
            { title: "Completed", numeric: true, cell: (bucket) => bucket.completed },
            { title: "Failed", numeric: true, cell: (bucket) => bucket.failed },
            { title: "Cancelled", numeric: true, cell: (bucket) => bucket.cancelled },
            { title: "Median", numeric: true, cell: (bucket) => shown(bucket.p50_ms) },
            { title: "95 of 100 within", numeric: true, cell: (bucket) => shown(bucket.p95_ms) },
          ]}
        />
      </details>
    </div>
  );
}

function Bars({ label, buckets, zone }: { label: string; buckets: Bucket[]; zone: Zone }) {
  const most = Math.max(1, ...buckets.map(total));
  return (
    <svg className="trend-bars" viewBox={`0 0 ${buckets.length * STEP} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      {buckets.map((bucket, at) => {
        let top = HEIGHT;
        return (
          <g key={bucket.at}>
            <title>{hourText(bucket, zone)}</title>
            <rect className="trend-room" x={at * STEP} y={0} width={STEP} height={HEIGHT} />
            {PARTS.map((part) => {
              // What happened once is visible beside what happened a thousand times.
              const height = bucket[part] === 0 ? 0 : Math.max(3, (bucket[part] / most) * (HEIGHT - 6));
              top -= height;
              return <rect key={part} className={`trend-${part}`} x={at * STEP + (STEP - BAR) / 2} y={top} width={BAR} height={height} />;
            })}
          </g>
        );
      })}
    </svg>
  );
}

/** The median and the 95th percentile of each hour, as the two ends of a line. */
function Durations({ buckets, zone }: { buckets: Bucket[]; zone: Zone }) {
  const longest = Math.max(1, ...buckets.map(({ p95_ms }) => p95_ms ?? 0));
  const label = `Median and 95th percentile of durations, up to ${durationText(longest)}`;
  const y = (millis: number) => (HEIGHT / 2 - 4) * (1 - millis / longest) + 2;
  return (
    <>
      <span className="small muted">Median and 95th percentile of durations, up to {durationText(longest)}</span>
      <svg className="trend-durations" viewBox={`0 0 ${buckets.length * STEP} ${HEIGHT / 2}`} preserveAspectRatio="none" role="img" aria-label={label}>
        {buckets.map((bucket, at) =>
          bucket.p50_ms === null || bucket.p95_ms === null ? null : (
            <g key={bucket.at}>
              <title>{hourText(bucket, zone)}</title>
              <rect className="trend-room" x={at * STEP} y={0} width={STEP} height={HEIGHT / 2} />
              <rect
                className="trend-range"
                x={at * STEP + (STEP - BAR) / 2}
                y={y(bucket.p95_ms)}
                width={BAR}
                height={y(bucket.p50_ms) - y(bucket.p95_ms) + 2}
              />
            </g>
          ),
        )}
      </svg>
    </>
  );
}

function total(bucket: Bucket): number {
  return bucket.completed + bucket.failed + bucket.cancelled;
}

function hourText(bucket: Bucket, zone: Zone): string {
  const counts = PARTS.map((part) => `${bucket[part]} ${part}`).join(", ");
  const durations = bucket.p50_ms === null ? "" : `; median ${shown(bucket.p50_ms)}, 95 of 100 within ${shown(bucket.p95_ms)}`;
  return `From ${momentText(toMillis(bucket.at), zone)}: ${counts}${durations}`;
}

function shown(millis: number | null): string {
  return millis === null ? "–" : durationText(millis);
}
