import "./design/tokens.css";
import "./design/base.css";
import "./design/parts.css";
import "./app/shell.css";

import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { startLive } from "./api/live/hub";
import { reloadForAnotherBuild } from "./app/anotherBuild";
import { showTheme } from "./app/preferences";
import { queries } from "./app/queries";
import { followConnection } from "./app/recovery";
import { router } from "./app/router";

showTheme();
reloadForAnotherBuild();
startLive();
followConnection(queries);

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}
