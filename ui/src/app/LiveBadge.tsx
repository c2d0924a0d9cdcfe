import { useLiveState } from "../api/live/useLive";
import { Icon } from "../design/Icon";
import type { LiveState } from "../api/live/source";

const WORDS: Record<LiveState, string> = {
  connecting: "Connecting",
  streaming: "Live",
  polling: "Live, by polling",
  off: "Server unreachable",
};

/** Whether what is shown follows the server. */
export function LiveBadge() {
  const state = useLiveState();
  return (
    <span className="live" role="status">
      <Icon name={state === "off" ? "alert" : state === "connecting" ? "clock" : "check"} />
      {WORDS[state]}
    </span>
  );
}
