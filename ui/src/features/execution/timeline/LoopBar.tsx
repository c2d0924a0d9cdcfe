/** A loop on the time axis: its items by the time of their end, or its counts until these are read. */
import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";

import { toMillis } from "../../../design/time";
import { bandsOf, type StepRun } from "../queries";
import { columnsOf } from "./bands";
import { itemsRunning } from "./phases";
import { placed, type Scale } from "./scale";

export function LoopBar({ executionId, step, scale }: { executionId: string; step: StepRun; scale: Scale }) {
  const { at } = useSearch({ from: "/shell/executions/$id" });
  // What the items of a loop had done at a moment of the past is not known.
  const bands = useQuery({ ...bandsOf(executionId, step), enabled: at === undefined });
  const begin = toMillis(step.started_at);
  const end = begin + step.duration_ms;
  const columns = at === undefined && bands.data ? columnsOf(bands.data) : [];
  const last = columns.at(-1)?.to ?? begin;
  return (
    <>
      <span className="timeline-bar" data-loop style={placed(scale, begin, end)}>
        {columns.length === 0 ? <Counts step={step} /> : null}
      </span>
      {columns.map(({ from, to, doneShare, failedShare }) => (
        <span key={from} className="timeline-column" style={placed(scale, from, to)}>
          <span className="failed" style={{ height: `${failedShare * 100}%` }} />
          <span className="done" style={{ height: `${doneShare * 100}%` }} />
        </span>
      ))}
      {columns.length > 0 && itemsRunning(step) > 0 && end > last ? (
        <span className="timeline-under-way" style={placed(scale, last, end)} />
      ) : null}
    </>
  );
}

/** How many items are done, failed, running, and left, from left to right. */
function Counts({ step }: { step: StepRun }) {
  const { done = 0, failed = 0, total = 0 } = step.loop ?? {};
  const share = (count: number) => `${(100 * count) / Math.max(1, total)}%`;
  return (
    <>
      <span className="done" style={{ width: share(done) }} />
      <span className="failed" style={{ width: share(failed) }} />
      <span className="running" style={{ width: share(itemsRunning(step)) }} />
    </>
  );
}
