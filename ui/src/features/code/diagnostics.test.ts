// @vitest-environment jsdom
import { setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { EditorView, runScopeHandlers } from "@codemirror/view";
import { afterEach, expect, test } from "vitest";

import { applyFix, diagnosticOf, fixKeys } from "./diagnostics";
import type { Mark } from "./marks";

const TEXT = "a: 1\n  stp: b, stp: c\n";
const MARK: Mark = {
  line: 2,
  column: 3,
  severity: "error",
  message: "<i>`stp`</i> is not a key",
  fix: "did you mean 'step'?",
  code: "unknown-key",
  edit: { line: 2, column: 3, end_column: 6, text: "step" },
};

const views: EditorView[] = [];
afterEach(() => views.splice(0).forEach((view) => view.destroy()));

function viewOf(marks: Mark[]): EditorView {
  const view = new EditorView({ state: EditorState.create({ doc: TEXT, extensions: [fixKeys] }) });
  views.push(view);
  view.dispatch(setDiagnostics(view.state, marks.map((mark) => diagnosticOf(view.state.doc, mark, true))));
  return view;
}

test("a fix changes its word, also when the text before it has moved", () => {
  const view = viewOf([MARK]);
  view.dispatch({ changes: { from: 0, insert: "# first\n" } });
  expect(applyFix(view, MARK)).toBe(true);
  expect(view.state.doc.toString()).toBe("# first\na: 1\n  step: b, stp: c\n");
});

test("a fix of a text that has changed there changes nothing", () => {
  const view = viewOf([MARK]);
  view.dispatch({ changes: { from: 7, to: 9, insert: "xy" } });
  applyFix(view, MARK);
  expect(view.state.doc.toString()).toBe("a: 1\n  xyp: b, stp: c\n");
});

test("control and full stop does what the nearest mark of the line suggests", () => {
  const second = { ...MARK, column: 11, edit: { line: 2, column: 11, end_column: 14, text: "stop" } };
  const view = viewOf([MARK, second]);
  const press = () => runScopeHandlers(view, new KeyboardEvent("keydown", { key: ".", ctrlKey: true }), "editor");
  expect(press()).toBe(false);
  view.dispatch({ selection: { anchor: 17 } });
  expect(press()).toBe(true);
  expect(view.state.doc.toString()).toBe("a: 1\n  stp: b, stop: c\n");
});

test.each([{ line: 9 }, { end_column: 99 }, { column: 8, end_column: 7 }])("a change that fits no text is not offered: %j", (odd) => {
  const found = diagnosticOf(viewOf([]).state.doc, { ...MARK, edit: { ...MARK.edit!, ...odd } }, true);
  expect(found.actions).toBeUndefined();
});

test("a text that is only read offers no change, and a message is text", () => {
  const view = viewOf([]);
  const found = diagnosticOf(view.state.doc, MARK, false);
  expect(found.actions).toBeUndefined();
  const box = found.renderMessage?.(view) as HTMLElement;
  expect(box.querySelector("i")).toBeNull();
  expect(box.textContent).toContain("noetl docs diagnostics#unknown-key");
});
