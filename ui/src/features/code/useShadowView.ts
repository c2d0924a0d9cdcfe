/** A CodeMirror view inside of a shadow root: its styles may be made by script there, under the security policy. */
import type { EditorView } from "@codemirror/view";
import { type RefObject, useEffect, useRef } from "react";

/** `make` is called once for each `identity`; the view is destroyed with the component. */
export function useShadowView(
  identity: string,
  make: (parent: HTMLElement, root: ShadowRoot) => EditorView,
): { host: RefObject<HTMLDivElement | null>; view: RefObject<EditorView | null> } {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const maker = useRef(make);
  maker.current = make;
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const parent = document.createElement("div");
    root.replaceChildren(parent);
    view.current = maker.current(parent, root);
    return () => {
      view.current?.destroy();
      view.current = null;
    };
  }, [identity]);
  return { host, view };
}
