import type { IconName } from "../design/Icon";

/** The pages of the navigation, in its order; `key` follows `g` on the keyboard. */
export const PAGES = [
  { to: "/", title: "Home", icon: "home", key: "h" },
  { to: "/executions", title: "Executions", icon: "list", key: "e" },
  { to: "/playbooks", title: "Playbooks", icon: "book", key: "p" },
  { to: "/approvals", title: "Approvals", icon: "bell", key: "a" },
  { to: "/schedules", title: "Schedules", icon: "calendar", key: "s" },
  { to: "/credentials", title: "Credentials", icon: "key", key: "c" },
  { to: "/limits", title: "Limits", icon: "gauge", key: "l" },
  { to: "/workers", title: "Workers", icon: "cpu", key: "w" },
  { to: "/dead-letters", title: "Dead letters", icon: "letter", key: "d" },
  { to: "/sql", title: "SQL", icon: "table", key: "q" },
  { to: "/settings", title: "Settings", icon: "gear", key: "," },
] as const satisfies readonly { to: string; title: string; icon: IconName; key: string }[];
