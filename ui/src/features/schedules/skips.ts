/** Which moments of a schedule started nothing, and how its last one ended. */
import type { Schemas } from "../../api/client";

type Schedule = Pick<Schemas["ScheduleView"], "last_at" | "skips">;

/** The moment that was skipped last, if no later one came; its reason is the one of *Last skipped*. */
export function skippedLast({ last_at, skips }: Schedule): Schemas["SkipView"] | undefined {
  const [newest] = skips ?? [];
  return newest !== undefined && newest.at === last_at ? newest : undefined;
}
