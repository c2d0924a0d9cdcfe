/** Navigation beside the page, keys that work everywhere, the palette. */
import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import { lazy, Suspense, useEffect, useState } from "react";

import { useTopic } from "../api/live/useLive";
import { Button } from "../design/Button";
import { Icon } from "../design/Icon";
import { zoneName } from "../design/time";
import { LiveBadge } from "./LiveBadge";
import { PAGES } from "./navigation";
import { Notices } from "./notices";
import { useZone } from "./preferences";
import { useSession } from "./SessionContext";
import { followKeys } from "./keys";

const Palette = lazy(() => import("./Palette"));
const KeyHelp = lazy(() => import("./KeyHelp"));

export function Shell() {
  const [over, setOver] = useState<"palette" | "keys" | null>(null);
  const [menu, setMenu] = useState(false);
  const navigate = useNavigate();
  const session = useSession();
  const zone = useZone();
  useTopic("executions");
  useEffect(
    () =>
      followKeys({
        palette: () => setOver("palette"),
        help: () => setOver("keys"),
        go: (to) => void navigate({ to }),
      }),
    [navigate],
  );
  return (
    <div className="shell">
      <button type="button" className="button skip" onClick={() => document.getElementById("main")?.focus()}>
        Skip to the page
      </button>
      <header className="side" data-open={menu || undefined}>
        <Link to="/" className="brand">
          <img src="./favicon.svg" alt="" />
          NoETL
        </Link>
        <button type="button" className="button search-button" aria-label="Search and commands" onClick={() => setOver("palette")}>
          <Icon name="search" />
          <span>Search</span>
          <kbd>Ctrl K</kbd>
        </button>
        <div className="menu-button">
          <Button label="Navigation" pressed={menu} onPress={() => setMenu(!menu)}>
            <Icon name="menu" />
          </Button>
        </div>
        <nav aria-label="Pages">
          <ul className="nav">
            {PAGES.map((page) => (
              <li key={page.to}>
                <Link to={page.to} activeOptions={{ exact: page.to === "/" }} onClick={() => setMenu(false)}>
                  <Icon name={page.icon} />
                  {page.title}
                </Link>
              </li>
            ))}
          </ul>
        </nav>
        <div className="side-foot">
          <LiveBadge />
          <span>Times in {zoneName(zone)}</span>
          <span>{session.principal}</span>
        </div>
      </header>
      <main className="main" id="main" tabIndex={-1}>
        <Outlet />
      </main>
      <Notices />
      <Suspense>
        {over === "palette" ? <Palette close={() => setOver(null)} /> : null}
        {over === "keys" ? <KeyHelp close={() => setOver(null)} /> : null}
      </Suspense>
    </div>
  );
}
