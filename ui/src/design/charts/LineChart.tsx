/**
 * Lines over time or over a number, drawn by uPlot on a canvas. It sets its styles through the CSSOM, which the content security
 * policy allows. Colours come from the tokens, so a canvas is drawn again when the theme changes.
 */
import "uplot/dist/uPlot.min.css";
import "./charts.css";

import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import uPlot from "uplot";

import { useTheme } from "../../app/preferences";
import type { Zone } from "../time";
import { Readout } from "./Readout";
import { axisNumber, axisTimes, placeRange, valueRange } from "./scale";
import { looksOf } from "./series";
import { stops } from "./stops";

export interface Line {
  name: string;
  /** By place: null is a gap, undefined is no point of this line. */
  values: (number | null | undefined)[];
  /** What the values are as text; a number beyond 2^53 has all of its digits here. */
  texts: (string | undefined)[];
}

export interface Lines {
  /** Ascending, each once; milliseconds since 1970 when they are moments. */
  places: number[];
  placeTexts: string[];
  lines: Line[];
  /** The zone of places that are moments; null: they are numbers. */
  zone: Zone | null;
}

const FONT_PX = 12;
/** The width of a digit of that font, roughly. */
const DIGIT_PX = 7;
const NOTHING = "–";

export default function LineChart({ label, data }: { label: string; data: Lines }) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(null);
  const byKey = useRef(false);
  const [chosen, choose] = useState<number | null>(null);
  const look = `${useTheme()} ${useDarkness()}`;
  const last = data.places.length - 1;
  const at = Math.min(chosen ?? last, last);
  const looks = looksOf(data.lines.map(({ name }) => name));

  useEffect(() => {
    const frame = host.current;
    if (!frame) return;
    const drawn = new uPlot(optionsOf(frame, data, (next) => !byKey.current && choose(next)), [data.places, ...data.lines.map(({ values }) => values)], frame);
    plot.current = drawn;
    const fit = new ResizeObserver(() => drawn.setSize({ width: frame.clientWidth, height: frame.clientHeight }));
    fit.observe(frame);
    return () => {
      fit.disconnect();
      drawn.destroy();
      plot.current = null;
    };
  }, [data, look]);

  const go = (next: number) => {
    choose(next);
    const drawn = plot.current;
    if (!drawn) return;
    // Where points are closer than pixels, the nearest of a pixel is not always the one that was meant.
    byKey.current = true;
    drawn.setCursor({ left: drawn.valToPos(data.places[next] ?? 0, "x"), top: 0 });
    byKey.current = false;
  };
  const place = data.placeTexts[at] ?? "";
  const readings = data.lines.map(({ name, texts }, line) => ({ name, text: texts[at] ?? NOTHING, look: looks[line] ?? { colour: "--text", dash: [] } }));
  const text = `${place}: ${readings.map((one) => `${one.name} ${one.text}`).join(", ")}`;
  return (
    <div className="chart">
      <div className="chart-lines" ref={host} {...stops({ label, count: data.places.length, at, text, go })} />
      <Readout place={place} readings={readings} />
    </div>
  );
}

function optionsOf(frame: HTMLElement, data: Lines, point: (at: number) => void): uPlot.Options {
  const colour = colourReader(frame);
  const { zone, lines } = data;
  const font = `${FONT_PX}px ${getComputedStyle(frame).fontFamily}`;
  const axis: uPlot.Axis = {
    font,
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1, size: 4 },
  };
  return {
    width: frame.clientWidth,
    height: frame.clientHeight,
    ms: 1,
    tzDate: (millis) => (zone === "UTC" ? uPlot.tzDate(new Date(millis), "UTC") : new Date(millis)),
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false } },
    scales: {
      x: { time: zone !== null, range: (_, first, past) => placeRange(first, past, zone !== null) },
      y: { range: (_, least, most) => valueRange(least, most) },
    },
    axes: [
      {
        ...axis,
        space: 72,
        size: zone === null ? 32 : 44,
        values: (_, splits, __, ___, step) => (zone === null ? splits.map(axisNumber) : axisTimes(splits, step, zone)),
      },
      {
        ...axis,
        size: (_, texts) => 16 + DIGIT_PX * Math.max(1, ...(texts ?? []).map((text) => text.length)),
        values: (_, splits) => splits.map(axisNumber),
      },
    ],
    series: [
      {},
      ...looksOf(lines.map(({ name }) => name)).map((look) => ({
        stroke: colour(look.colour),
        width: 1.5,
        dash: look.dash,
        points: { size: 5, fill: colour(look.colour) },
      })),
    ],
    hooks: {
      setCursor: [
        ({ cursor }) => {
          if (typeof cursor.idx === "number") point(cursor.idx);
        },
      ],
    },
  };
}

/** A canvas takes no token: an element that has it as its colour says what it is in this theme. */
function colourReader(frame: HTMLElement): (token: string) => string {
  return (token) => {
    const probe = document.createElement("span");
    probe.style.color = `var(${token})`;
    frame.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };
}

const dark = matchMedia("(prefers-color-scheme: dark)");

/** Whether the system asks for dark colours; the theme of the page may be another. */
function useDarkness(): boolean {
  return useSyncExternalStore(
    (listener) => {
      dark.addEventListener("change", listener);
      return () => dark.removeEventListener("change", listener);
    },
    () => dark.matches,
  );
}
