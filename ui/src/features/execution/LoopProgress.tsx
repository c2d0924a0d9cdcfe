import type { Schemas } from "../../api/client";

/** A loop's items: how many are done, failed, left; as text and as a bar. */
export function LoopProgress({ loop }: { loop: Schemas["LoopView"] }) {
  const share = (count: number) => `${(100 * count) / Math.max(1, loop.total)}%`;
  return (
    <span>
      <span className="small">
        {loop.done} of {loop.total} items{loop.failed > 0 ? `, ${loop.failed} failed` : ""}
      </span>
      <span className="progress" aria-hidden="true">
        <span style={{ width: share(loop.done) }} />
        <span className="progress-failed" style={{ width: share(loop.failed) }} />
      </span>
    </span>
  );
}
