/** React's side of live updates: a change of a topic makes the queries of that topic stale. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";

import { isNews } from "./known";
import { liveState, onChange, onState, watchTopic } from "./hub";
import { refresh } from "./refresh";
import type { LiveState } from "./source";

export function useLiveState(): LiveState {
  return useSyncExternalStore(onState, liveState);
}

/** Keep the queries whose key begins with the topic's key up to date while a component is shown and wants it. */
export function useTopic(topic: string, wanted = true): void {
  const client = useQueryClient();
  useEffect(() => {
    if (!wanted) return;
    const stopWatching = watchTopic(topic);
    const stopListening = onChange((change) => {
      if (change.topic === topic && isNews(change)) refresh(client, topic);
    });
    return () => {
      stopWatching();
      stopListening();
    };
  }, [client, topic, wanted]);
}
