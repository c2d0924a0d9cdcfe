/** What the page asks again when the connection for changes is lost, and when it is back. */
import type { QueryClient } from "@tanstack/react-query";

import { liveState, onState } from "../api/live/hub";

/**
 * Lost: the server may be away, or the session over, which the gate then says. Back: a server that has nothing new sends no hint, so
 * what could not be read is read again. The returned function ends it.
 */
export function followConnection(client: QueryClient): () => void {
  let lost = false;
  return onState(() => {
    const state = liveState();
    if (state === "off") {
      lost = true;
      void client.invalidateQueries({ queryKey: ["session"] });
    } else if (lost && state !== "connecting") {
      lost = false;
      void client.invalidateQueries({ predicate: (query) => query.state.status === "error" });
    }
  });
}
