import { expect, test } from "vitest";

import { readFlowchart } from "./flowchart";

test("every shape and line of the server's drawing is read, with its text unescaped", () => {
  const chart = readFlowchart(`flowchart TD
    s0["start<br/>python"]
    s1[["price<br/>for each order, parallel"]]
    s2{{"#60;script#62;"}}
    s3((("stop")))
    s4>"undo it"]
    s5[/"child/#34;x"/]
    s6("route")
    begin(( )) --> s0
    s0 --> s1
    s1 -->|"event.name == #39;loop.done#39;"| s2
    s2 -.-> s3
    s2 -.-x s6
    s4 -.-o s0
    s1 ==> s5
    finish([when all is done]) -.-> s3
`);
  expect(chart.nodes.map(({ id, kind, name }) => [id, kind, name])).toEqual([
    ["s0", "step", "start"],
    ["s1", "loop", "price"],
    ["s2", "gate", "<script>"],
    ["s3", "end", "stop"],
    ["s4", "undo", "undo it"],
    ["s5", "playbook", 'child/"x'],
    ["s6", "route", "route"],
  ]);
  expect(chart.nodes[1]?.notes).toEqual(["for each order, parallel"]);
  expect(chart.arcs.map(({ source, kind, label, target }) => [source, kind, label, target])).toEqual([
    ["s0", "arc", "", "s1"],
    ["s1", "arc", "event.name == 'loop.done'", "s2"],
    ["s2", "failure", "", "s3"],
    ["s2", "cancels", "", "s6"],
    ["s4", "undoes", "", "s0"],
    ["s1", "calls", "", "s5"],
  ]);
  expect([chart.entry, chart.final]).toEqual(["s0", "s3"]);
});
