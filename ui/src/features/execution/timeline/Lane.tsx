/** One step run on the time axis; a loop is a band of its items. */
import type { CSSProperties } from "react";

import { Icon } from "../../../design/Icon";
import { iconOf, toneOf } from "../../../design/Status";
import { durationText, toMillis } from "../../../design/time";
import type { LaneOf } from "./lanes";
import { LoopBar } from "./LoopBar";
import { beginOf, runText, segmentsOf, segmentText } from "./phases";
import { placed, type Scale } from "./scale";

export function Lane({
  row: { executionId, step, depth },
  scale,
  offset,
  picked,
  pick,
  opened,
  toggle,
}: {
  row: LaneOf;
  scale: Scale;
  offset: number;
  picked: boolean;
  pick: () => void;
  /** Whether the steps of its sub-execution are shown below; undefined: it has none. */
  opened: boolean | undefined;
  toggle: () => void;
}) {
  const end = toMillis(step.started_at) + step.duration_ms;
  const from = scale.place(beginOf(step));
  const to = scale.place(end);
  const tone = toneOf(step.status);
  return (
    <div
      className="timeline-row"
      data-child={opened !== undefined || undefined}
      style={{ transform: `translateY(${offset}px)`, "--depth": depth } as CSSProperties}
    >
      {opened === undefined ? null : (
        <button type="button" className="timeline-toggle" aria-expanded={opened} aria-label={`Steps of the child of ${step.step}`} onClick={toggle}>
          <Icon name="chevron" />
        </button>
      )}
      <button
        type="button"
        className="timeline-lane"
        aria-pressed={picked}
        aria-label={`${step.step}, ${runText(step)}${depth > 0 ? `, in sub-execution ${executionId}` : ""}`}
        onClick={pick}
      >
        <span className={`timeline-name tone-only-${tone}`}>
          <Icon name={iconOf(step.status)} />
          <span>{step.step}</span>
        </span>
        <span className="timeline-track">
          {scale.gaps.map((gap) => (
            <span
              key={gap.from}
              className="timeline-gap"
              style={{ left: `${gap.at * 100}%`, width: `${(scale.place(gap.to) - gap.at) * 100}%` }}
            />
          ))}
          {step.loop ? (
            <LoopBar executionId={executionId} step={step} scale={scale} />
          ) : (
            segmentsOf(step).map((segment) => (
              <span
                key={segment.from}
                className={`timeline-bar tone-only-${tone}`}
                data-phase={segment.kind}
                title={segmentText(segment)}
                style={placed(scale, segment.from, segment.to)}
              />
            ))
          )}
          <span className="timeline-word" title={runText(step)} style={worded(from, to)}>
            {durationText(step.duration_ms)}
            <span className="timeline-more">
              {step.loop ? ` · ${step.loop.done}/${step.loop.total}` : ""}
              {step.loop && step.loop.failed > 0 ? ` · ${step.loop.failed} failed` : ""}
              {(step.attempts ?? 1) > 1 ? ` · ${step.attempts} calls` : ""}
            </span>
          </span>
        </span>
      </button>
    </div>
  );
}

/** The share of the track with which words have room in front of a bar; behind it they have the margin besides. */
const ROOM = 0.4;

/** Where the words of a bar are: behind it, or in front of it; never on it, where they would hide what it says. */
function worded(from: number, to: number) {
  const isBefore = 1 - to < ROOM && from >= ROOM;
  return isBefore ? { left: 0, right: `${(1 - from) * 100}%`, textAlign: "end" as const } : { left: `${to * 100}%`, right: "calc(-1 * var(--words))" };
}
