/** A framed remark with an icon: a failure, a warning, an explanation. */
import type { ReactNode } from "react";

import { Icon, type IconName } from "./Icon";
import type { Tone } from "./Status";

const ICONS: Record<Tone, IconName> = {
  good: "check",
  bad: "cross",
  warn: "alert",
  busy: "play",
  held: "pause",
  idle: "info",
};

export function Note({ tone, children, role }: { tone: Tone; children: ReactNode; role?: "alert" | "status" }) {
  return (
    <div className={`note tone-${tone}`} role={role}>
      <Icon name={ICONS[tone]} />
      <div>{children}</div>
    </div>
  );
}
