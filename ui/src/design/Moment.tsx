/** A moment in the zone that the page prints; how long ago on hover and for screen readers in the title. */
import { useZone } from "../app/preferences";
import { momentText, relativeText, toMillis } from "./time";

export function Moment({ at, precise, relative }: { at: number | string | null | undefined; precise?: boolean; relative?: boolean }) {
  const zone = useZone();
  if (at === null || at === undefined) return <span className="muted">–</span>;
  const millis = toMillis(at);
  const absolute = momentText(millis, zone, precise ? "milli" : "second");
  const distance = relativeText(millis, Date.now());
  return (
    <time dateTime={new Date(millis).toISOString()} title={relative ? absolute : distance}>
      {relative ? distance : absolute}
    </time>
  );
}
