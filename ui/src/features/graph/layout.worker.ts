/** Lays a graph out beside the page's thread. */
import { layOut } from "./layout";

addEventListener("message", ({ data }: MessageEvent<{ id: number; chart: Parameters<typeof layOut>[0] }>) => {
  postMessage({ id: data.id, layout: layOut(data.chart) });
});
