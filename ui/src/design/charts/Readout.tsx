/** What a chart has at one place: the place, and each series with its mark and its value. It is the legend as well. */
import "./charts.css";

import type { Look } from "./series";

export interface Reading {
  name: string;
  text: string;
  look: Look;
}

export function Readout({ place, readings }: { place: string; readings: Reading[] }) {
  return (
    <div className="readout small">
      <span className="readout-place numeric">{place}</span>
      <dl>
        {readings.map(({ name, text, look }) => (
          <div key={name}>
            <dt>
              <SeriesMark look={look} />
              {name}
            </dt>
            <dd className="numeric">{text}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

export function SeriesMark({ look: { colour, dash } }: { look: Look }) {
  return (
    <svg className="series-mark" viewBox="0 0 20 4" aria-hidden="true">
      <line x1="0" y1="2" x2="20" y2="2" style={{ stroke: `var(${colour})`, strokeDasharray: dash.join(" ") }} />
    </svg>
  );
}
