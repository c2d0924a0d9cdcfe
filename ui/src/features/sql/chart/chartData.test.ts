import { expect, test } from "vitest";

import { type Chart, chartOf, type Choice, chosenOf, columnsOf, MOST_BARS } from "./chartData";
import { momentOf, numberOf, roleOf } from "./columns";

const AT = "timestamp with time zone";

function charted(columns: [string, string][], rows: unknown[][], choice: Choice = {}): Chart | null {
  const found = chosenOf(columnsOf(columns.map(([name, type]) => ({ name, type }))), rows, choice);
  return found && chartOf(rows, found, "UTC");
}

function linesOf(chart: Chart | null) {
  if (chart?.kind !== "lines") throw new Error(`not lines: ${JSON.stringify(chart)}`);
  return chart;
}

function barsOf(chart: Chart | null) {
  if (chart?.kind !== "bars") throw new Error(`not bars: ${JSON.stringify(chart)}`);
  return chart;
}

test("what a column is", () => {
  expect(roleOf("n", "bigint")).toBe("number");
  expect(roleOf("execution_id", "bigint")).toBe("text");
  expect(roleOf("at", AT)).toBe("time");
  expect(roleOf("day", "date")).toBe("time");
  expect(roleOf("took", "interval")).toBe("text");
  expect(roleOf("fact", "json")).toBe("none");
  expect(roleOf("names", "text[]")).toBe("none");
});

test("times of Postgres as moments, and what is none", () => {
  expect(momentOf("2026-11-29 01:20:30.25+00")).toBe(Date.parse("2026-11-29T01:20:30.250Z"));
  expect(momentOf("2026-11-29 01:20:30.999999+05:30")).toBe(Date.parse("2026-11-28T19:50:30.999Z"));
  expect(momentOf("2026-11-29 01:20:30-03")).toBe(Date.parse("2026-11-29T04:20:30Z"));
  expect(momentOf("2026-11-29 01:20:30")).toBe(Date.parse("2026-11-29T01:20:30Z"));
  expect(momentOf("2026-11-29")).toBe(Date.parse("2026-11-29T00:00Z"));
  expect([momentOf("infinity"), momentOf("0044-03-15 BC"), momentOf(null), momentOf(5)]).toEqual([null, null, null, null]);
});

test("numbers, digits of any length, and what is no number", () => {
  expect([numberOf(1.5), numberOf("18446744073709551617"), numberOf(2n ** 70n), numberOf("1.25")]).toEqual([1.5, 18446744073709551617, 2 ** 70, 1.25]);
  expect(["NaN", "Infinity", "", " ", null, undefined, true, {}].map(numberOf)).toEqual(new Array(8).fill(null));
});

test("times come in order, null and NaN are gaps, and huge integers keep their digits as text", () => {
  const chart = linesOf(
    charted(
      [["at", AT], ["n", "numeric"]],
      [
        ["2026-11-29 03:00:00+00", "18446744073709551617"],
        ["2026-11-29 01:00:00+00", null],
        ["2026-11-29 02:00:00+00", "NaN"],
        [null, "4"],
      ],
    ),
  );
  expect(chart.data.placeTexts).toEqual(["2026-11-29 01:00:00", "2026-11-29 02:00:00", "2026-11-29 03:00:00"]);
  expect(chart.data.lines).toEqual([
    { name: "n", values: [null, null, 18446744073709551617], texts: ["null", "NaN", "18446744073709551617"] },
  ]);
  expect(chart.data.zone).toBe("UTC");
  expect(chart.notes).toEqual(["1 row without a time in at left out."]);
});

test("rows that share a moment are split by a text; a line has no point where it has no row", () => {
  const rows = [
    ["2026-11-29 01:00:00+00", "completed", 5],
    ["2026-11-29 01:00:00+00", "failed", 1],
    ["2026-11-29 02:00:00+00", "completed", 7],
  ];
  const columns: [string, string][] = [["hour", AT], ["status", "text"], ["n", "bigint"]];
  expect(linesOf(charted(columns, rows)).data.lines).toEqual([
    { name: "completed", values: [5, 7], texts: ["5", "7"] },
    { name: "failed", values: [1, undefined], texts: ["1", undefined] },
  ]);
  const together = linesOf(charted(columns, rows, { by: "" }));
  expect(together.data.lines.map(({ values }) => values)).toEqual([[1, 7]]);
  expect(together.notes).toEqual(["1 row at a place that another row of the series has: the last one is drawn."]);
});

test("the choice of the link counts as far as the rows have its columns", () => {
  const columns = columnsOf([["a", "bigint"], ["b", "bigint"], ["b", "bigint"], ["t", "text"]].map(([name = "", type = ""]) => ({ name, type })));
  const keys = (choice: Choice) => {
    const found = chosenOf(columns, [], choice);
    return found && [found.x.key, found.ys.map(({ key }) => key), found.by?.key ?? null];
  };
  expect(keys({})).toEqual(["t", ["a"], null]);
  expect(keys({ x: "a", y: ["b (2)", "b"] })).toEqual(["a", ["b (2)", "b"], null]);
  expect(keys({ x: "gone", y: ["gone", "t"], by: "gone" })).toEqual(["t", ["a"], null]);
  expect(keys({ x: "a", by: "t" })).toEqual(["a", ["b"], "t"]);
  expect(chosenOf(columnsOf([{ name: "n", type: "bigint" }]), [], {})).toBeNull();
  expect(chosenOf(columnsOf([{ name: "t", type: "text" }]), [], {})).toBeNull();
});

test("categories are bars in the order of the rows, with a cell for each series", () => {
  const chart = barsOf(
    charted(
      [["path", "text"], ["status", "text"], ["n", "bigint"]],
      [
        ["b", "completed", 4],
        ["b", "failed", 2],
        [null, "completed", -1],
      ],
    ),
  );
  expect(chart.data).toEqual({
    series: ["completed", "failed"],
    bars: [
      { category: "b", values: [4, 2], texts: ["4", "2"] },
      { category: "null", values: [-1, null], texts: ["-1", "–"] },
    ],
  });
});

test("one row, none, no number, and more than is drawn", () => {
  const columns: [string, string][] = [["path", "text"], ["n", "bigint"]];
  expect(barsOf(charted(columns, [["a", 1]])).data.bars).toHaveLength(1);
  expect(charted(columns, [])).toEqual({ kind: "nothing", why: "The query has no rows." });
  expect(charted(columns, [["a", null]])).toEqual({ kind: "nothing", why: "No row has a number in n." });
  expect(charted([["at", AT], ["n", "bigint"]], [["infinity", 1]])).toEqual({ kind: "nothing", why: "No row has a time in at." });
  const many = Array.from({ length: 10_000 }, (_, at) => [`p${at}`, at]);
  const chart = barsOf(charted(columns, many));
  expect(chart.data.bars).toHaveLength(MOST_BARS);
  expect(chart.notes).toEqual(["The first 30 of 10,000 are drawn: ORDER BY says which."]);
  const series = many.map(([path, at]) => [`2026-11-29 00:00:00+00`, path, at]);
  const lines = linesOf(charted([["at", AT], ["path", "text"], ["n", "bigint"]], series));
  expect(lines.data.lines.map(({ name }) => name)).toEqual(["p9994", "p9995", "p9996", "p9997", "p9998", "p9999"]);
  expect(lines.notes).toEqual(["9,994 more series are left out: those with the smallest sums."]);
});
