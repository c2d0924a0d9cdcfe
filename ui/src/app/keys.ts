/** Keys that work on every page: Ctrl K, `?`, and `g` with a letter. */
import { PAGES } from "./navigation";

type Target = (typeof PAGES)[number]["to"];

/** Whether a key belongs to the control that has the focus. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Listen to the keys of all pages; the returned function ends it. */
export function followKeys(act: { palette: () => void; help: () => void; go: (to: Target) => void }): () => void {
  let going = false;
  const listen = (event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      act.palette();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event) || document.querySelector(".overlay")) return;
    const page = going ? PAGES.find(({ key }) => key === event.key) : undefined;
    going = event.key === "g" && !going;
    if (page) act.go(page.to);
    else if (event.key === "?") act.help();
  };
  addEventListener("keydown", listen);
  return () => removeEventListener("keydown", listen);
}
