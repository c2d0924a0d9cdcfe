/** Replace the whole text of an editor as its keys do. */
import type { Locator } from "@playwright/test";

export async function write(editor: Locator, text: string): Promise<void> {
  await editor.press("Control+a");
  await editor.press("Delete");
  await editor.page().keyboard.insertText(text);
}
