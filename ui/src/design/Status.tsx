/** A state as icon and word; colour only repeats what they say. */
import { Icon, type IconName } from "./Icon";

export type Tone = "good" | "bad" | "warn" | "busy" | "held" | "idle";

const LOOKS: Record<string, { tone: Tone; icon: IconName }> = {
  completed: { tone: "good", icon: "check" },
  done: { tone: "good", icon: "check" },
  failed: { tone: "bad", icon: "cross" },
  error: { tone: "bad", icon: "cross" },
  refused: { tone: "bad", icon: "cross" },
  running: { tone: "busy", icon: "play" },
  entered: { tone: "busy", icon: "play" },
  compensating: { tone: "warn", icon: "repeat" },
  waiting: { tone: "warn", icon: "clock" },
  parked: { tone: "warn", icon: "clock" },
  warning: { tone: "warn", icon: "alert" },
  delayed: { tone: "warn", icon: "repeat" },
  paused: { tone: "held", icon: "pause" },
  queued: { tone: "idle", icon: "list" },
  scheduled: { tone: "idle", icon: "calendar" },
  cancelled: { tone: "idle", icon: "stop" },
  skipped: { tone: "idle", icon: "skip" },
  info: { tone: "idle", icon: "info" },
  debug: { tone: "idle", icon: "dot" },
  critical: { tone: "bad", icon: "stop" },
  active: { tone: "good", icon: "check" },
  alive: { tone: "good", icon: "check" },
  silent: { tone: "bad", icon: "alert" },
};

const UNKNOWN = { tone: "idle", icon: "dot" } as const;

export function toneOf(status: string): Tone {
  return (LOOKS[status] ?? UNKNOWN).tone;
}

/** Whether a word is a state that has a colour. */
export function isStatus(word: string): boolean {
  return Object.hasOwn(LOOKS, word);
}

export function iconOf(status: string): IconName {
  return (LOOKS[status] ?? UNKNOWN).icon;
}

export function Status({ of: status, word = status }: { of: string; word?: string }) {
  return (
    <span className={`status tone-${toneOf(status)}`}>
      <Icon name={iconOf(status)} />
      {word}
    </span>
  );
}
