/** Bars of categories, one below the other: each has its name and its number beside it, so it is its own table. */
import "./charts.css";

import { SeriesMark } from "./Readout";
import { looksOf } from "./series";

export interface Bar {
  category: string;
  /** By series; null: it has no number. */
  values: (number | null)[];
  texts: string[];
}

export interface BarRows {
  series: string[];
  bars: Bar[];
}

export function Bars({ label, data: { series, bars } }: { label: string; data: BarRows }) {
  const all = bars.flatMap(({ values }) => values).filter((value) => value !== null);
  const least = Math.min(0, ...all);
  const most = Math.max(0, ...all);
  const width = most - least || 1;
  const looks = looksOf(series);
  return (
    <div className="chart">
      {series.length > 1 ? (
        <ul className="bars-keys small">
          {series.map((name, at) => (
            <li key={name}>
              <SeriesMark look={{ colour: looks[at]?.colour ?? "--text", dash: [] }} />
              {name}
            </li>
          ))}
        </ul>
      ) : null}
      <ol className="bars" aria-label={label}>
        {bars.map(({ category, values, texts }) => (
          <li key={category}>
            <span className="bars-category">{category}</span>
            {values.map((value, at) => (
              <span key={series[at]} className="bars-row">
                {series.length > 1 ? <span className="hidden-visually">{series[at]}</span> : null}
                <span className="bars-track" aria-hidden="true">
                  <span
                    className="bars-fill"
                    style={{
                      insetInlineStart: `${((Math.min(value ?? 0, 0) - least) / width) * 100}%`,
                      width: `${(Math.abs(value ?? 0) / width) * 100}%`,
                      background: `var(${looks[at]?.colour})`,
                    }}
                  />
                </span>
                <span className={value === null ? "numeric muted" : "numeric"}>{texts[at]}</span>
              </span>
            ))}
          </li>
        ))}
      </ol>
    </div>
  );
}
