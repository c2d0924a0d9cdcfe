// @vitest-environment jsdom
import { EditorView, type Tooltip } from "@codemirror/view";
import { expect, test } from "vitest";

import { pointed } from "./pointed";

test("an answer that comes when the cursor is elsewhere is not shown", async () => {
  // What measures texts is missing in jsdom.
  Range.prototype.getClientRects = () => [] as unknown as DOMRectList;
  const answers: ((tooltip: Tooltip) => void)[] = [];
  const view = new EditorView({
    doc: "one two",
    parent: document.body,
    extensions: pointed(() => new Promise((resolve) => answers.push(resolve))),
  });
  const ask = () => view.contentDOM.dispatchEvent(new KeyboardEvent("keydown", { key: "i", code: "KeyI", keyCode: 73, ctrlKey: true }));
  const answer = async (index: number, text: string) => {
    const dom = Object.assign(document.createElement("p"), { textContent: text });
    answers[index]?.({ pos: 0, create: () => ({ dom }) });
    await new Promise((resolve) => setTimeout(resolve));
    return [...view.dom.ownerDocument.querySelectorAll(".cm-tooltip")].map((tooltip) => tooltip.textContent);
  };
  ask();
  view.dispatch({ selection: { anchor: 5 } });
  ask();
  expect(await answer(1, "of two")).toEqual(["of two"]);
  expect(await answer(0, "of one")).toEqual(["of two"]);
  view.destroy();
});
