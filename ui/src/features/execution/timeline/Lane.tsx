/** One step run on the time axis; a loop is a band of its items. */
import { Icon } from "../../../design/Icon";
import { iconOf, toneOf } from "../../../design/Status";
import { durationText, toMillis } from "../../../design/time";
import type { StepRun } from "../queries";
import { LoopBar } from "./LoopBar";
import { beginOf, runText, segmentsOf, segmentText } from "./phases";
import { placed, type Scale } from "./scale";

export function Lane({
  executionId,
  step,
  scale,
  offset,
  picked,
  pick,
}: {
  executionId: string;
  step: StepRun;
  scale: Scale;
  offset: number;
  picked: boolean;
  pick: () => void;
}) {
  const end = toMillis(step.started_at) + step.duration_ms;
  const from = scale.place(beginOf(step));
  const to = scale.place(end);
  const side = sideOf(from, to);
  const tone = toneOf(step.status);
  return (
    <button
      type="button"
      className="timeline-lane"
      style={{ transform: `translateY(${offset}px)` }}
      aria-pressed={picked}
      aria-label={`${step.step}, ${runText(step)}`}
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
        <span className="timeline-word" data-inside={side === "inside" || undefined} style={worded(side, from, to)}>
          {durationText(step.duration_ms)}
          <span className="timeline-more">
            {step.loop ? ` · ${step.loop.done}/${step.loop.total}` : ""}
            {step.loop && step.loop.failed > 0 ? ` · ${step.loop.failed} failed` : ""}
            {(step.attempts ?? 1) > 1 ? ` · attempt ${step.attempts}` : ""}
          </span>
        </span>
      </span>
    </button>
  );
}

/** Shares of the track: what is left of it holds the words of a run. */
const ROOM = 0.4;

/** Where the words of a bar have room: behind it, in front of it, or nowhere beside it. */
function sideOf(from: number, to: number): "behind" | "before" | "inside" {
  if (1 - to >= ROOM) return "behind";
  return from >= ROOM ? "before" : "inside";
}

function worded(side: ReturnType<typeof sideOf>, from: number, to: number) {
  if (side === "behind") return { left: `${to * 100}%` };
  return { right: `${(1 - (side === "before" ? from : to)) * 100}%` };
}
