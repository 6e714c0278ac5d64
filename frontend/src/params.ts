// What the reader chose on a page stands in its address: the back button undoes it, and a link shows the same.
import { useEffect, useState } from "preact/hooks";

const listeners = new Set<() => void>();
const tellAll = () => {
  for (const tell of listeners) tell();
};

/** What was chosen where the browser refused to write it into the address; null where the address holds it. */
let own: URLSearchParams | null = null;

window.addEventListener("popstate", () => {
  own = null;
  tellAll();
});

/** Be told when anything of the address changed. */
export function onParams(tell: () => void): () => void {
  listeners.add(tell);
  return () => void listeners.delete(tell);
}

export const params = (): URLSearchParams => new URLSearchParams(own ?? window.location.search);

/** The query of the address with some values changed; null or nothing takes a name out. */
function changed(changes: Record<string, string | null>): URLSearchParams {
  const query = params();
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  return query;
}

/** A path with the query of the address, but for these values. */
export function withChanges(path: string, changes: Record<string, string | null>): string {
  const query = changed(changes);
  return `${path}${query.size ? `?${query}` : ""}`;
}

/** Change the address; null takes a name out, and `quiet` leaves no step for the back button. */
export function setParams(changes: Record<string, string | null>, quiet = false): void {
  setQuery(changed(changes), quiet);
}

/** Put these and no others into the address. */
export function setQuery(query: URLSearchParams, quiet = false, hash = window.location.hash): void {
  if (query.toString() === params().toString()) return;
  const next = `${window.location.pathname}${query.size ? `?${query}` : ""}${hash}`;
  try {
    window.history[quiet ? "replaceState" : "pushState"](null, "", next);
    own = null;
  } catch {
    // Viewers that show a file in a frame of their own have no history for it; browsers also refuse too many changes.
    own = query;
  }
  tellAll();
}

/** One value of the address, and how to change it. */
export function useParam(name: string): [string | null, (value: string | null, quiet?: boolean) => void] {
  const [value, set] = useState(() => params().get(name));
  useEffect(() => {
    const tell = () => set(params().get(name));
    tell();
    return onParams(tell);
  }, [name]);
  return [value, (next, quiet) => setParams({ [name]: next }, quiet)];
}
