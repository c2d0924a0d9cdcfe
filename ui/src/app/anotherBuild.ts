/** A page that stays open while its server becomes another version asks for parts that are gone; it then begins again, where it was. */

const KEPT = "noetl-began-again";

/** What is typed in the editor is in the browser's database, so it is there after the page has begun again. */
export function reloadForAnotherBuild(): void {
  window.addEventListener("vite:preloadError", (event) => {
    // Once a build: a part that is missing from the new one as well is an error to be shown.
    if (sessionStorage.getItem(KEPT) === import.meta.url) return;
    sessionStorage.setItem(KEPT, import.meta.url);
    event.preventDefault();
    location.reload();
  });
}
