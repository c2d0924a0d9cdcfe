/** One connection per browser: the tab that holds a lock follows the topics of all tabs and passes changes on. */
import { type Change, type Cursor, follow, type LiveState } from "./source";

type Message =
  | { kind: "topics"; tab: string; topics: string[] }
  | { kind: "who" }
  | { kind: "change"; change: Change }
  | { kind: "state"; state: LiveState };

/** Topics that the server takes of one connection; with more, it would refuse those of all tabs. */
const MOST_TOPICS = 64;
const tab = crypto.randomUUID();
const channel = new BroadcastChannel("noetl-live");
const wanted = new Map<string, number>();
const topicsOfTabs = new Map<string, string[]>();
const changeListeners = new Set<(change: Change) => void>();
const stateListeners = new Set<() => void>();
let state: LiveState = "connecting";
const cursor: Cursor = { last: "" };
let leads = false;
let connection: { topics: string; stop: AbortController } | null = null;

/** Start to take part: lead when no other tab of this browser does. */
export function startLive(): void {
  channel.onmessage = ({ data }: MessageEvent<Message>) => receive(data);
  document.addEventListener("visibilitychange", announce);
  addEventListener("pageshow", announce);
  addEventListener("pagehide", () => send({ kind: "topics", tab, topics: [] }));
  const lead = () => {
    leads = true;
    topicsOfTabs.set(tab, visibleTopics());
    send({ kind: "who" });
    reconnect();
    return new Promise<never>(() => undefined);
  };
  if ("locks" in navigator) void navigator.locks.request("noetl-live", lead);
  else void lead();
}

/** Ask for changes of a topic; the returned function ends it. */
export function watchTopic(topic: string): () => void {
  wanted.set(topic, (wanted.get(topic) ?? 0) + 1);
  announce();
  return () => {
    const left = (wanted.get(topic) ?? 1) - 1;
    if (left > 0) wanted.set(topic, left);
    else wanted.delete(topic);
    announce();
  };
}

export function onChange(listener: (change: Change) => void): () => void {
  changeListeners.add(listener);
  return () => changeListeners.delete(listener);
}

export function onState(listener: () => void): () => void {
  stateListeners.add(listener);
  return () => stateListeners.delete(listener);
}

export function liveState(): LiveState {
  return state;
}

/** A hidden tab asks for nothing, so that it keeps no pausing database awake. */
function visibleTopics(): string[] {
  return document.visibilityState === "hidden" ? [] : [...wanted.keys()];
}

function announce(): void {
  const topics = visibleTopics();
  topicsOfTabs.set(tab, topics);
  if (leads) reconnect();
  else send({ kind: "topics", tab, topics });
}

function receive(message: Message): void {
  if (message.kind === "change") emitChange(message.change);
  else if (message.kind === "state") emitState(message.state);
  else if (message.kind === "who") announce();
  else if (leads) {
    topicsOfTabs.set(message.tab, message.topics);
    // A tab whose topics are followed already begins no connection that would tell it.
    send({ kind: "state", state });
    reconnect();
  }
}

let reconnecting: ReturnType<typeof setTimeout> | undefined;

/** Follow the topics of all tabs; a page that opens asks for several at once, so wait a moment. */
function reconnect(): void {
  clearTimeout(reconnecting);
  reconnecting = setTimeout(() => {
    const topics = [...new Set([...topicsOfTabs.values()].flat())].slice(0, MOST_TOPICS).sort();
    const asked = topics.join(",");
    if (connection?.topics === asked) return;
    connection?.stop.abort();
    connection = null;
    if (topics.length === 0) return;
    const stop = new AbortController();
    connection = { topics: asked, stop };
    void follow(
      topics,
      cursor,
      {
        change: (change) => {
          send({ kind: "change", change });
          emitChange(change);
        },
        state: (next) => {
          send({ kind: "state", state: next });
          emitState(next);
        },
      },
      stop.signal,
    );
  }, 50);
}

function send(message: Message): void {
  channel.postMessage(message);
}

function emitChange(change: Change): void {
  for (const listener of changeListeners) listener(change);
}

function emitState(next: LiveState): void {
  if (next === state) return;
  state = next;
  for (const listener of stateListeners) listener();
}
