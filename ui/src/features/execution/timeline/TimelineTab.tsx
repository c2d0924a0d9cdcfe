import "./timeline.css";

import { useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";

import { useZone } from "../../../app/preferences";
import { Empty } from "../../../design/Empty";
import { Check } from "../../../design/Field";
import { Loaded } from "../../../design/Loaded";
import { durationText, momentText, zoneName } from "../../../design/time";
import type { TabProps } from "../ExecutionPage";
import type { StepRun } from "../queries";
import { StepPanel } from "../StepPanel";
import { StepsTable } from "../StepsTable";
import { useSteps } from "../usePast";
import { Lane } from "./Lane";
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
  const { run, idle } = useSearch({ from: "/shell/executions/$id" });
  const navigate = useNavigate({ from: "/executions/$id" });
  const spans = useMemo(() => steps.flatMap(spansOf), [steps]);
  const collapsed = useMemo(() => timeScale(spans), [spans]);
  const scale = useMemo(() => (idle === "shown" ? timeScale(spans, false) : collapsed), [idle, spans, collapsed]);
  const frame = useRef<HTMLDivElement>(null);
  const lanes = useVirtualizer({
    count: steps.length,
    estimateSize: () => LANE_PX,
    getScrollElement: () => frame.current,
    overscan: 6,
  });
  const picked = steps.find((step) => step.run === run);
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
          <Legend steps={steps} />
          <div className="timeline-lanes" ref={frame} style={{ height: Math.min(steps.length * LANE_PX + 2, 540) }}>
            <div style={{ height: lanes.getTotalSize() }}>
              {lanes.getVirtualItems().map(({ index, start }) => {
                const step = steps[index];
                return step ? (
                  <Lane
                    key={step.run}
                    executionId={executionId}
                    step={step}
                    scale={scale}
                    offset={start}
                    picked={step.run === run}
                    pick={() => void navigate({ search: (before) => ({ ...before, run: step.run }), resetScroll: false })}
                  />
                ) : null;
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
function Legend({ steps }: { steps: StepRun[] }) {
  const kinds = useMemo(() => kindsOf(steps), [steps]);
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
