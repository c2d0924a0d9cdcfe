import "./timeline.css";

import { useQueries } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useMemo, useRef } from "react";

import { useTopic } from "../../../api/live/useLive";
import { useZone } from "../../../app/preferences";
import { Empty } from "../../../design/Empty";
import { Failure } from "../../../design/Failure";
import { Check } from "../../../design/Field";
import { Loaded } from "../../../design/Loaded";
import { durationText, momentText, zoneName } from "../../../design/time";
import type { TabProps } from "../ExecutionPage";
import { phasesOf, type StepRun } from "../queries";
import { StepPanel } from "../StepPanel";
import { StepsTable } from "../StepsTable";
import { useOpened } from "../useOpened";
import { useSteps } from "../usePast";
import { Lane } from "./Lane";
import { type LaneOf, lanesOf } from "./lanes";
import { kindsOf, phaseWord, spansOf } from "./phases";
import { breaksOf, type Scale, timeScale } from "./scale";

const LANE_PX = 32;

export default function TimelineTab({ execution }: TabProps) {
  const steps = useSteps(execution.execution_id, true);
  return (
    <Loaded query={steps}>
      {(runs) =>
        runs.length === 0 ? (
          <Empty title="No step has begun." />
        ) : (
          <Timeline executionId={execution.execution_id} steps={runs} />
        )
      }
    </Loaded>
  );
}

function Timeline({ executionId, steps }: { executionId: string; steps: StepRun[] }) {
  const { run, idle, at } = useSearch({ from: "/shell/executions/$id" });
  const navigate = useNavigate({ from: "/executions/$id" });
  const { opened, toggle } = useOpened();
  // What sub-executions had done at a moment of this one's past is not known.
  const ids = at === undefined ? opened : NONE;
  const combine = useCallback((queries: ReadSteps[]) => readOf(ids, queries), [ids]);
  const inside = useQueries({ queries: ids.map((id) => phasesOf(id)), combine });
  const rows = useMemo(() => lanesOf(executionId, steps, inside.steps), [executionId, steps, inside.steps]);
  const spans = useMemo(() => rows.flatMap(({ step }) => spansOf(step)), [rows]);
  const collapsed = useMemo(() => timeScale(spans), [spans]);
  const scale = useMemo(() => (idle === "shown" ? timeScale(spans, false) : collapsed), [idle, spans, collapsed]);
  const frame = useRef<HTMLDivElement>(null);
  const lanes = useVirtualizer({
    count: rows.length,
    estimateSize: () => LANE_PX,
    getScrollElement: () => frame.current,
    overscan: 6,
  });
  const picked = steps.find((step) => step.run === run);
  const pick = ({ executionId: id, step }: LaneOf) =>
    id === executionId
      ? void navigate({ search: (before) => ({ ...before, run: step.run }), resetScroll: false })
      : void navigate({ to: "/executions/$id", params: { id }, search: { view: "timeline", run: step.run } });
  return (
    <>
      <div className={picked ? "two" : "stack"}>
        <section className="card card-flush" aria-label="Timeline; the table below says the same">
          {collapsed.gaps.length > 0 ? (
            <div className="timeline-tools">
              <Check
                label="Collapse idle time"
                value={idle !== "shown"}
                onChange={(collapse) =>
                  void navigate({ search: (before) => ({ ...before, idle: collapse ? undefined : "shown" }), replace: true, resetScroll: false })
                }
              />
            </div>
          ) : null}
          <Axis scale={scale} />
          {scale.gaps.length > 0 ? <Breaks scale={scale} /> : null}
          <Legend rows={rows} />
          {ids.map((id) => (
            <Watched key={id} id={id} />
          ))}
          {inside.error ? <Failure error={inside.error} /> : null}
          <div className="timeline-lanes" ref={frame} style={{ height: Math.min(rows.length * LANE_PX + 2, 540) }}>
            <div style={{ height: lanes.getTotalSize() }}>
              {lanes.getVirtualItems().map(({ index, start }) => {
                const row = rows[index];
                if (!row) return null;
                const child = at === undefined ? row.step.child_execution_id : null;
                return (
                  <Lane
                    key={`${row.executionId} ${row.step.run}`}
                    row={row}
                    scale={scale}
                    offset={start}
                    picked={row.depth === 0 && row.step.run === run}
                    pick={() => pick(row)}
                    opened={child ? inside.steps.has(child) : undefined}
                    toggle={() => child && toggle(child)}
                  />
                );
              })}
            </div>
          </div>
        </section>
        {picked ? <StepPanel key={picked.run} executionId={executionId} step={picked} /> : null}
      </div>
      <StepsTable steps={steps} />
    </>
  );
}

const NONE: string[] = [];

interface ReadSteps {
  data?: { steps: StepRun[] };
  error: unknown;
}

/** The step runs that are read, by execution, and the first reason why some are not. */
function readOf(ids: string[], queries: ReadSteps[]) {
  const steps = new Map<string, StepRun[]>();
  queries.forEach(({ data }, index) => {
    const id = ids[index];
    if (id !== undefined && data) steps.set(id, data.steps);
  });
  return { steps, error: queries.find(({ error }) => error !== null)?.error };
}

/** Follow the changes of a sub-execution while its steps are shown. */
function Watched({ id }: { id: string }) {
  useTopic(`execution:${id}`);
  return null;
}

function Axis({ scale }: { scale: Scale }) {
  const zone = useZone();
  const idle = scale.gaps.reduce((total, gap) => total + gap.to - gap.from, 0);
  return (
    <div className="timeline-axis">
      <span>{zoneName(zone)}</span>
      <span>
        <span>{momentText(scale.span.from, zone)}</span>
        {idle > 0 ? <span>{durationText(idle)} idle, collapsed</span> : null}
        <span>+{durationText(scale.span.to - scale.span.from)}</span>
      </span>
    </div>
  );
}

/** Where idle time is left out of the axis, and how much. */
function Breaks({ scale }: { scale: Scale }) {
  const breaks = breaksOf(scale);
  return (
    <div className="timeline-breaks">
      <span>breaks</span>
      <span className="timeline-track">
        {breaks.map(({ at, idle, count }) => (
          <span key={at} className="timeline-break" style={{ left: `${at * 100}%` }}>
            {"//".repeat(Math.min(count, 2))} {durationText(idle)}
          </span>
        ))}
      </span>
    </div>
  );
}

/** What the patterns of the bars mean, of those that are drawn. */
function Legend({ rows }: { rows: LaneOf[] }) {
  const kinds = useMemo(() => kindsOf(rows.map(({ step }) => step)), [rows]);
  return kinds.length === 0 ? null : (
    <ul className="timeline-legend" aria-label="Patterns">
      {kinds.map((kind) => (
        <li key={kind}>
          <span className="timeline-sample" data-phase={kind} aria-hidden="true" />
          {phaseWord(kind)}
        </li>
      ))}
    </ul>
  );
}
