/** How executions ended in the last day, by the hour: bars of counts, and durations below; an hour is read by pointer or keys, all as a table. */
import { useQuery } from "@tanstack/react-query";
import { type PointerEvent, useState } from "react";

import type { Schemas } from "../../api/client";
import { useZone } from "../../app/preferences";
import { Readout } from "../../design/charts/Readout";
import { stops } from "../../design/charts/stops";
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
  const [chosen, choose] = useState<number | null>(null);
  const at = Math.min(chosen ?? buckets.length - 1, buckets.length - 1);
  const bucket = buckets[at];
  const point = ({ clientX, currentTarget }: PointerEvent) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    choose(Math.max(0, Math.min(buckets.length - 1, Math.floor(((clientX - left) / width) * buckets.length))));
  };
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
      <div
        className="trend-plot"
        onPointerMove={point}
        {...stops({ label: `Executions that ended, by the hour: ${words}`, count: buckets.length, at, text: bucket ? hourText(bucket, zone) : "", go: choose })}
      >
        <Bars buckets={buckets} at={at} />
        <Durations buckets={buckets} at={at} />
      </div>
      <div className="trend-axis small muted">
        <Moment at={buckets[0]?.at} />
        <Moment at={stats.until} />
      </div>
      {bucket ? <Hour bucket={bucket} zone={zone} /> : null}
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

const LOOKS = { completed: "--good", cancelled: "--idle", failed: "--bad" } as const;

/** The hour that the pointer or the keys have chosen; the latest before. */
function Hour({ bucket, zone }: { bucket: Bucket; zone: Zone }) {
  const counts = PARTS.map((part) => ({ name: part, text: bucket[part].toLocaleString("en"), look: { colour: LOOKS[part], dash: [] } }));
  const durations = [
    { name: "median", text: shown(bucket.p50_ms) },
    { name: "95 of 100 within", text: shown(bucket.p95_ms) },
  ].map((one) => ({ ...one, look: { colour: "--line-strong", dash: [] } }));
  return <Readout place={`From ${momentText(toMillis(bucket.at), zone)}`} readings={[...counts, ...durations]} />;
}

function Bars({ buckets, at }: { buckets: Bucket[]; at: number }) {
  const most = Math.max(1, ...buckets.map(total));
  return (
    <svg className="trend-bars" viewBox={`0 0 ${buckets.length * STEP} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <rect className="trend-room" x={at * STEP} y={0} width={STEP} height={HEIGHT} />
      {buckets.map((bucket, index) => {
        let top = HEIGHT;
        return (
          <g key={bucket.at}>
            {PARTS.map((part) => {
              // What happened once is visible beside what happened a thousand times.
              const height = bucket[part] === 0 ? 0 : Math.max(3, (bucket[part] / most) * (HEIGHT - 6));
              top -= height;
              return <rect key={part} className={`trend-${part}`} x={index * STEP + (STEP - BAR) / 2} y={top} width={BAR} height={height} />;
            })}
          </g>
        );
      })}
    </svg>
  );
}

/** The median and the 95th percentile of each hour, as the two ends of a line. */
function Durations({ buckets, at }: { buckets: Bucket[]; at: number }) {
  const longest = Math.max(1, ...buckets.map(({ p95_ms }) => p95_ms ?? 0));
  const y = (millis: number) => (HEIGHT / 2 - 4) * (1 - millis / longest) + 2;
  return (
    <>
      <span className="small muted">Median and 95th percentile of durations, up to {durationText(longest)}</span>
      <svg className="trend-durations" viewBox={`0 0 ${buckets.length * STEP} ${HEIGHT / 2}`} preserveAspectRatio="none" aria-hidden="true">
        <rect className="trend-room" x={at * STEP} y={0} width={STEP} height={HEIGHT / 2} />
        {buckets.map((bucket, index) =>
          bucket.p50_ms === null || bucket.p95_ms === null ? null : (
            <rect
              key={bucket.at}
              className="trend-range"
              x={index * STEP + (STEP - BAR) / 2}
              y={y(bucket.p95_ms)}
              width={BAR}
              height={y(bucket.p50_ms) - y(bucket.p95_ms) + 2}
            />
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
