/** One step run on the time axis; a loop is a band of its items. */
import { Icon } from "../../../design/Icon";
import { iconOf, toneOf } from "../../../design/Status";
import { durationText, toMillis } from "../../../design/time";
import { stateText } from "../../graph/overlay";
import type { StepRun } from "../queries";
import type { Scale } from "./scale";

const WAITS = new Set(["waiting", "parked", "paused", "queued", "delayed"]);

export function Lane({
  step,
  scale,
  offset,
  picked,
  pick,
}: {
  step: StepRun;
  scale: Scale;
  offset: number;
  picked: boolean;
  pick: () => void;
}) {
  const from = scale.place(toMillis(step.started_at));
  const to = scale.place(toMillis(step.started_at) + step.duration_ms);
  const tone = toneOf(step.status);
  return (
    <button
      type="button"
      className="timeline-lane"
      style={{ transform: `translateY(${offset}px)` }}
      aria-pressed={picked}
      aria-label={`${step.step}, ${stateText({ latest: step, runs: 1 })}`}
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
        <span
          className={`timeline-bar tone-only-${tone}`}
          data-waits={WAITS.has(step.status) || undefined}
          data-loop={step.loop ? true : undefined}
          style={{ left: `${from * 100}%`, width: `${(to - from) * 100}%` }}
        >
          {step.loop ? <Band loop={step.loop} /> : null}
        </span>
        <span className="timeline-word" style={{ left: `${to * 100}%` }}>
          {durationText(step.duration_ms)}
          <span className="timeline-more">
            {step.loop ? ` · ${step.loop.done}/${step.loop.total}` : ""}
            {(step.attempts ?? 1) > 1 ? ` · attempt ${step.attempts}` : ""}
          </span>
        </span>
      </span>
    </button>
  );
}

function Band({ loop }: { loop: NonNullable<StepRun["loop"]> }) {
  const share = (count: number) => `${(100 * count) / Math.max(1, loop.total)}%`;
  return (
    <>
      <span className="done" style={{ width: share(loop.done) }} />
      <span className="failed" style={{ width: share(loop.failed) }} />
    </>
  );
}
